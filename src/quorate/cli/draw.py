"""``quorate draw``: a picture of a genotype."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from quorate.nets import Genotype

__all__ = ["draw"]


def draw(
    genotype: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    title: str | None = None,
) -> None:
    """Draw a genotype: both cells, with their nodes, edges and operations.

    ```
    quorate draw DARTS_V2
    quorate draw runs/NAME/learners/0/genotype.json --out cells.png
    quorate draw "Genotype(normal=[('sep_conv_3x3', 0), ...], reduce=[...])" --out cells.svg
    ```

    Args:
        genotype: a name (DARTS_V1, DARTS_V2, GDAS_V1, PC_DARTS_CIFAR, PC_DARTS_IMAGENET), a file with a genotype as
            JSON or in the classic notation, or that notation itself.
        out: where to write it; the suffix chooses .svg, .png or .pdf. By default the name with .svg, in this folder.
        title: a line above the cells. By default the name.
    """
    from quorate.nets import draw_genotype

    found, name = read_genotype(genotype)
    print(draw_genotype(found, out or Path(f"{name}.svg"), name if title is None else title))


def read_genotype(given: str) -> "tuple[Genotype, str]":
    """The genotype that a name, a file or a notation means, and what to call it."""
    from quorate.errors import QuorateError
    from quorate.nets import NAMED_GENOTYPES, Genotype

    if given.upper() in NAMED_GENOTYPES:
        return NAMED_GENOTYPES[given.upper()], given.upper()
    if "(" in given:
        return Genotype.from_text(given), "genotype"
    path = Path(given)
    if not path.is_file():
        raise ValueError(
            f"{given!r} is neither a file nor a genotype; names are {', '.join(NAMED_GENOTYPES)}, "
            "and a notation reads Genotype(normal=[...], reduce=[...])"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise QuorateError(f"{path} must be text (JSON or the classic notation), but is not") from None
    try:
        return (Genotype.from_json(text) if text.lstrip().startswith("{") else Genotype.from_text(text)), path.stem
    except (ValueError, QuorateError) as error:
        raise QuorateError(f"{path} holds no genotype: {error}") from None
