import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from quorate.nets import DARTS_V2, DartsLearner, attach_exits

from .test_depthwise import MIXED


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("genotype", [DARTS_V2, MIXED])
def test_a_branch_compiles_without_graph_breaks(training, genotype):
    torch._dynamo.reset()
    torch.manual_seed(0)
    learner = DartsLearner(genotype, 4, 4, 10, drop_path=0.0).train(training)
    x = torch.randn(4, 3, 16, 16)
    state = [x]
    for branch in learner.branches:
        # In training this moves running statistics twice, but the output uses those of the batch.
        *_, wanted = branch(*state)
        *state, got = torch.compile(branch, fullgraph=True, backend="eager")(*state)
        assert torch.allclose(got, wanted, atol=1e-5)
        if training:
            got.sum().backward(retain_graph=True)
            assert all(p.grad is not None for p in branch.cells[:-1].parameters())
        state = [tensor.detach().requires_grad_(training) for tensor in state]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_drop_path_and_mixed_precision_compile_too():
    torch._dynamo.reset()
    learner = DartsLearner(MIXED, 4, 4, 10, drop_path=0.2).train()

    @torch.compile(fullgraph=True, backend="eager")
    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            return learner(x)

    x = torch.randn(4, 3, 16, 16)
    loss = sum(out.float().sum() for out in step(x))
    loss.backward()
    learner.set_drop_path(0.3)
    step(x)
    assert all(p.grad is not None for p in learner.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_cut_branch_compiles_too():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
    x = torch.randn(2, 3, 8, 8)
    learner = attach_exits(model, ["1"], classes=5, sample=x)
    state = (x,)
    for branch in learner.branches:
        *state, logits = torch.compile(branch, fullgraph=True, backend="eager")(*(s.detach() for s in state))
    assert torch.allclose(logits, model(x), atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_training_step_is_captured_as_a_cuda_graph():
    """Forward, loss, backward and the update in one graph; drop path changes between replays without a new one."""
    learner = DartsLearner(MIXED, 8, 6, 10, drop_path=0.2).cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(16, 3, 32, 32, device="cuda"), torch.randint(0, 10, (16,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16):
            loss = sum(F.cross_entropy(out.float(), y) for out in learner(x))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 5.0, foreach=True)
        optimizer.step()
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for _ in range(20):
        graph.replay()
        losses.append(loss.item())
    learner.set_drop_path(0.5)
    graph.replay()
    assert losses[-1] < losses[0]
