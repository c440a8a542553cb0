import io

from rich.console import Console

from quorate.train.progress import Progress, showing


def told(step, epoch, held_out, learner=0):
    return Progress(learner, step, 20, epoch, 4, 1000.0, (1.5, 1.25), (0.5, 0.75), held_out)


def test_without_a_terminal_there_is_a_line_for_each_epoch(capsys):
    with showing(terminal=False) as listen:
        for one in [told(2, 0, False), told(5, 1, True), told(7, 1, False), told(10, 2, True), told(20, 4, True)]:
            listen(one)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        "learner 0  epoch 1/4  1,000 images/s  loss 1.500 1.250  held-out accuracy 50.00 75.00 %"
    )
    assert lines[-1].endswith("0:00:00 left")


def test_without_held_out_images_too(capsys):
    with showing(terminal=False) as listen:
        for one in [told(2, 0, False), told(5, 1, False), told(7, 1, False), told(10, 2, False)]:
            listen(one)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_in_a_terminal_each_learner_has_its_bar(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **keywords: Console(file=written, force_terminal=True, width=200)
    )
    with showing() as listen:
        listen(told(5, 1, True))
        listen(told(5, 1, True, learner=1))
    assert "learner 0  epoch 1/4" in written.getvalue()
    assert "learner 1  epoch 1/4" in written.getvalue()
