"""``quorate draw``: a picture of a genotype."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

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
    from quorate.nets import draw_genotype, read_genotype

    found, name = read_genotype(genotype)
    print(draw_genotype(found, out or Path(f"{name}.svg"), name if title is None else title))
