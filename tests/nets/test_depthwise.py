import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from quorate.nets import DARTS_V2, DartsLearner, Genotype, using_forms
from quorate.nets.depthwise import DepthwiseConv, depthwise
from quorate.nets.forms import PLAIN, DepthwiseForm, depthwise_form, memory_format
from tests.by_definition import nets_depthwise as slow

from . import cases  # noqa: F401 - sets the number of threads

CPU = torch.device("cpu")
FORMS = [
    DepthwiseForm(gx, gw, phase)
    for gx in ("native", "flipped")
    for gw in ("native", "split")
    for phase in (False, True)
]
MIXED = Genotype(
    (("sep_conv_5x5", 0), ("dil_conv_5x5", 1), ("dil_conv_3x3", 0), ("skip_connect", 1), *DARTS_V2.normal[4:]),
    (("dil_conv_5x5", 0), ("sep_conv_5x5", 1), ("dil_conv_3x3", 1), ("skip_connect", 0), *DARTS_V2.reduce[4:]),
)


def three(x, w, stride, dilation, form, seed=0):
    """Output and both gradients."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = depthwise(x, w, stride, dilation, form)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(y)
    return y.detach(), *torch.autograd.grad(y, (x, w), g), g


sizes = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
kinds = st.tuples(st.sampled_from([3, 5]), st.sampled_from([1, 2]), st.sampled_from([1, 2]))


@settings(deadline=None, max_examples=80)
@given(sizes, kinds, st.sampled_from(FORMS), st.sampled_from([torch.contiguous_format, torch.channels_last]))
def test_every_form_is_the_definition(size, kind, form, layout):
    kernel, stride, dilation = kind
    torch.manual_seed(sum(size))
    x = torch.randn(size, dtype=torch.float64).contiguous(memory_format=layout)
    w = torch.randn(size[1], 1, kernel, kernel, dtype=torch.float64)
    y, gx, gw, g = three(x, w, stride, dilation, form)
    wanted = slow.depthwise(x.numpy(), w.numpy(), stride, dilation)
    gradients = slow.depthwise(x.numpy(), w.numpy(), stride, dilation, g.numpy())
    for ours, theirs in zip((y, gx, gw), (wanted, *gradients), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(
    kinds,
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.sampled_from([(8, 16, 32, 32), (4, 64, 8, 8), (2, 8, 4, 4)]),
)
def test_the_fast_forms_are_right_in_working_precision(kind, dtype, size):
    """Against double precision: the framework's own weight gradient of a dilated kernel in bfloat16 is not."""
    kernel, stride, dilation = kind
    torch.manual_seed(kernel)
    x = torch.randn(size).to(dtype).contiguous(memory_format=torch.channels_last)
    w = torch.randn(size[1], 1, kernel, kernel).to(dtype)
    exact = three(x.double(), w.double(), stride, dilation, PLAIN)[:3]
    with using_forms("fast"):
        fast = three(x, w, stride, dilation, depthwise_form(kernel, stride, dilation, CPU, dtype))[:3]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for ours, truth in zip(fast, exact, strict=True):
        assert (ours.double() - truth).abs().max() <= tolerance * truth.abs().max()


def test_second_gradients_are_right():
    """The gradients are made of differentiable calls, so they can be differentiated again."""
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    with using_forms("fast"):
        form = depthwise_form(5, 1, 1, CPU, torch.float64)
        assert torch.autograd.gradgradcheck(lambda x, w: depthwise(x, w, 1, 1, form), (x, w))


def test_only_the_gradients_asked_for_are_computed():
    x, w = torch.randn(2, 3, 6, 6), torch.randn(3, 1, 5, 5, requires_grad=True)
    depthwise(x, w, 1, 2, DepthwiseForm("flipped", "split")).sum().backward()
    assert w.grad is not None
    x = x.requires_grad_()
    depthwise(x, w.detach(), 1, 2, DepthwiseForm("flipped", "split")).sum().backward()
    assert x.grad is not None


def grown(forms, dtype=torch.float64, amp=False, device="cpu"):
    torch.manual_seed(0)
    learner = DartsLearner(MIXED, 4, 6, 10).to(device=device, dtype=dtype).train()
    x = torch.randn(8, 3, 16, 16, dtype=torch.float64).to(device=device, dtype=dtype)
    with using_forms(forms):
        with torch.autocast(device, torch.bfloat16, enabled=amp):
            loss = sum(
                F.cross_entropy(out.float() if amp else out, torch.arange(8, device=device)) for out in learner(x)
            )
        loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in learner.parameters()]).double()


def test_a_whole_step_is_the_same_in_every_form():
    loss, gradient = grown("plain")
    for forms in ("auto", "fast"):
        other_loss, other = grown(forms)
        assert other_loss == pytest.approx(loss, rel=1e-12)
        assert torch.allclose(gradient, other, rtol=1e-8, atol=1e-12)


def test_a_whole_step_in_single_and_mixed_precision():
    """As near to the exact gradient as the plain form is."""
    _, exact = grown("plain")
    for dtype, amp in ((torch.float32, False), (torch.float32, True)):
        plain, auto = (grown(forms, dtype, amp)[1] for forms in ("plain", "auto"))
        assert (auto - exact).norm() < 1.5 * (plain - exact).norm() + 1e-6 * exact.norm()


def test_mixed_precision_reaches_the_forms():
    """A form computes in the precision that automatic casting asks for, forward and backward."""
    convolution = DepthwiseConv(4, 5, 1)
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = convolution(x)
        assert y.dtype == torch.bfloat16
        y.sum().backward()
    assert x.grad.dtype == convolution.weight.grad.dtype == torch.float32


def test_which_form_where():
    assert depthwise_form(3, 1, 1, CPU, torch.float32).weight_gradient == "native"
    assert depthwise_form(5, 1, 1, CPU, torch.float32) == DepthwiseForm("flipped", "split")
    assert depthwise_form(3, 2, 1, CPU, torch.float32) == PLAIN
    assert depthwise_form(3, 2, 1, CPU, torch.bfloat16).input_gradient == "flipped"
    assert depthwise_form(5, 2, 2, CPU, torch.float32).phase
    assert depthwise_form(5, 1, 1, torch.device("cuda"), torch.float32) == PLAIN
    assert depthwise_form(5, 1, 1, torch.device("meta"), torch.float32) == PLAIN
    with using_forms("fast"):
        assert depthwise_form(5, 1, 1, torch.device("cuda"), torch.float32) != PLAIN
    with using_forms("plain"):
        assert memory_format(CPU) == torch.contiguous_format
    with pytest.raises(ValueError, match="auto, plain or fast, got 'quick'"), using_forms("quick"):
        pass


def test_forms_are_restored_after_an_error():
    with pytest.raises(RuntimeError), using_forms("plain"):
        raise RuntimeError
    assert depthwise_form(5, 1, 1, CPU, torch.float32) != PLAIN


def test_evaluation_is_the_frameworks_convolution():
    convolution = DepthwiseConv(4, 5, 2, dilation=2).eval()
    x = torch.randn(2, 4, 9, 9)
    wanted = F.conv2d(x, convolution.weight, None, 2, 4, 2, 4)
    assert torch.equal(convolution(x), wanted)
    assert torch.allclose(convolution.train()(x), wanted, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_form_on_a_gpu(kernel, stride, dilation, dtype):
    torch.backends.cudnn.allow_tf32 = False
    x = torch.randn(4, 16, 16, 16, device="cuda").to(dtype).contiguous(memory_format=torch.channels_last)
    w = torch.randn(16, 1, kernel, kernel, device="cuda").to(dtype)
    exact = three(x.double(), w.double(), stride, dilation, PLAIN)[:3]
    tolerance = {torch.float64: 1e-11, torch.float32: 1e-4, torch.bfloat16: 3e-2}[dtype]
    for form in FORMS:
        for ours, truth in zip(three(x, w, stride, dilation, form)[:3], exact, strict=True):
            assert (ours.double() - truth).abs().max() <= tolerance * truth.abs().max()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_whole_step_on_a_gpu():
    _, exact = grown("plain")
    for forms in ("plain", "auto", "fast"):
        assert torch.allclose(grown(forms, device="cuda")[1].cpu(), exact, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_right_in_evaluation_too(training):
    """The framework's own dilated weight gradient in bfloat16 is wrong on a CPU (see ``depthwise_form``)."""
    x = torch.randn(4, 16, 32, 32).contiguous(memory_format=torch.channels_last)
    g, gradients = torch.randn_like(x), []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        layer = DepthwiseConv(16, 3, 1, 2).to(dtype).train(training)
        layer(x.to(dtype)).backward(g.to(dtype))
        gradients.append(layer.weight.grad.float())
    wanted, got = gradients
    assert (got - wanted).norm() < 0.05 * wanted.norm()
