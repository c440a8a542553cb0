"""What commands share: the time that is left, without a terminal."""

from quorate.cli.common import _lines


def test_the_time_left_is_that_of_the_piece_of_work(capsys):
    now = [0.0]
    say = _lines(lambda: now[0])
    for done in range(1, 4):  # a minute of something else before
        now[0] += 20
        say("before", done, 3)
    for done in range(1, 6):
        now[0] += 12
        say("fitting", done, 10)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "fitting: 5 of 10, 60 s left"
    assert lines[0] == "before: 2 of 3, 20 s left"
