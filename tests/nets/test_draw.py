import os
import re
import subprocess
import sys

import pytest

from quorate.cli import main
from quorate.nets import DARTS_V1, GDAS_V1, draw_genotype


def test_the_picture_names_every_node_edge_and_operation(tmp_path):
    path = draw_genotype(GDAS_V1, tmp_path / "gdas.svg", "GDAS")
    text = path.read_text()
    for node in range(2, 6):
        assert text.count(f">node {node}<") == 2
    for operation, source in (*GDAS_V1.normal, *GDAS_V1.reduce):
        assert f">{operation} of {source}<" in text
    assert ">normal cell<" in text
    assert ">reduction cell<" in text
    labels = re.findall(r">(\w+) of (\d)<", text)
    assert sorted(labels) == sorted((name, str(source)) for name, source in (*GDAS_V1.normal, *GDAS_V1.reduce))


def test_the_same_genotype_gives_the_same_bytes(tmp_path):
    first, second = (draw_genotype(DARTS_V1, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")])
def test_kinds_of_pictures(tmp_path, suffix, magic):
    assert draw_genotype(DARTS_V1, tmp_path / f"a.{suffix}").read_bytes().startswith(magic)


def test_the_command_reads_names_files_and_notation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(DARTS_V1.to_json())
    (tmp_path / "mine.txt").write_text("DARTS_V1 = " + str(DARTS_V1))
    for given, out in (("darts_v1", "DARTS_V1.svg"), ("mine.json", "mine.svg"), (str(DARTS_V1), "genotype.svg")):
        assert main(["draw", given]) == 0
        assert capsys.readouterr().out.strip() == out
    assert main(["draw", "mine.txt", "--out", "x.png", "--title", "Mine"]) == 0
    assert (tmp_path / "x.png").exists()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "neither a file nor a genotype; names are DARTS_V1, "),
        (["Genotype(normal=[], reduce=[])"], "8 edges"),
        (["DARTS_V1", "--out", "x.gif"], "must be written as .svg, .png or .pdf, got 'x.gif'"),
        (["DARTS_V1", "--out", "nowhere/x.svg"], "the folder 'nowhere' must exist"),
        (["binary"], "must be text"),
        (["later.json"], "later.json holds no genotype: the genotype's schema must be 1, got 9"),
        (["prose.txt"], "prose.txt holds no genotype: a genotype must read"),
        (["DARTS_V1", "--out", "d.svg"], "must be written to a file, but 'd.svg' is a folder"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.svg").mkdir()
    (tmp_path / "prose.txt").write_text("no genotype at all")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "later.json").write_text('{"schema": 9, "normal": [], "reduce": []}')
    assert main(["draw", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_drawing_needs_no_torch():
    code = (
        "import sys; from quorate.nets import read_genotype; read_genotype('DARTS_V1'); "
        "from quorate.nets import draw_genotype; print('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("title", [r"$\frac{$", "costs $5 and $6", r"a\b", r"\$"])
def test_a_title_is_taken_as_it_is(tmp_path, title):
    assert f">{title}<" in draw_genotype(DARTS_V1, tmp_path / "a.svg", title).read_text()
