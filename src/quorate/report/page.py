"""The report of one run as a page: one file, no network, no framework; it reads without JavaScript too.

The page is made of the document of results alone, and of what else is passed in as values: pictures, drawings,
histories. It knows neither networks nor where files are.
"""

from html import escape
from pathlib import Path

from quorate.report.deciding import Document, hero, operating, policies, summary, ways
from quorate.report.looking import Extras, beside_the_paper, classes, gallery, learners, trust
from quorate.report.making import making, measured
from quorate.report.markup import facts
from quorate.report.saying import sentence, share
from quorate.report.tables import macs, percent

__all__ = ["document", "page_of"]

HERE = Path(__file__).parent
HATCH = (
    '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs><pattern id="hatch" width="6" '
    'height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="3" height="6" '
    'fill="var(--hatch)"/></pattern></defs></svg>'
)
COUNTED = {
    "F_M": "latency of K devices that wait for each other at every exit (the paper's cost; policies with stages only)",
    "F_MT": "what those devices spend",
    "lazy": "one device that runs nothing before a vote needs it",
    "eager": "one device that takes all learners to the deepest exit waited for",
    "free-running": "K devices that compute ahead without waiting: when the last vote needed is in",
    "its energy": "what those K devices have spent by then",
    "milliseconds": "the branches that lazy runs, each by the time measured of it alone; whole answers are measured "
    "under Time",
    "standard error": "± behind an accuracy, the shade around a line; of costs it stands in results.json",
}
NAMES = {
    "operating": "Operating point", "ways": "Costs", "policies": "Policies", "trust": "Trust", "classes": "Classes",
    "gallery": "Samples", "paper": "The paper", "learners": "Learners", "time": "Time", "making": "Making",
}  # fmt: skip


def page_of(results: Document, extras: Extras | None = None) -> str:
    """The page of one run.

    Args:
        results: of :func:`quorate.report.results.results_of`.
        extras: what else there is to show.

    Returns:
        HTML that needs nothing else.
    """
    extras = extras or Extras()
    sections = [
        operating(results),
        ways(results),
        policies(results),
        trust(results),
        classes(results),
        gallery(results, extras.samples),
        beside_the_paper(results),
        learners(results, extras.drawings),
        measured(results),
        making(results, extras),
    ]
    links = "".join(
        f'<a href="#{name}">{said}</a>' for name, said in NAMES.items() if any(f'id="{name}"' in s for s in sections)
    )
    data = results.get("data") or {}
    said = ["quorate report", data.get("name"), f"{len(results['learners'])} learners", f"{results['exits']} exits"]
    said.append(f"{results['samples']:,} samples of {results.get('split', 'test')}")
    mark = " · ".join(str(x) for x in said if x)
    title = str(results.get("run") or data.get("name") or "report")
    head = (
        f'<header><div class="in"><p class="mark">{escape(mark)}</p><h1>{escape(title)}</h1>'
        f'<p class="says">{escape(_headline(results))}</p>{summary(results)}<nav>{links}</nav></div></header>'
    )
    foot = (
        f"<footer><h3>How costs are counted</h3>{facts(COUNTED)}"
        f"<p>Made by quorate {escape(results.get('quorate', ''))} from recorded votes; "
        "all numbers here stand in results.json beside this page.</p></footer>"
    )
    return document(title, f"{HATCH}{head}<main>{''.join(sections)}</main>{foot}", script=True)


def _headline(results: Document) -> str:
    """What happened, in a sentence."""
    own, static = hero(results), results["static"]
    spent, whole = own["costs"]["lazy"], static["costs"]["lazy"]
    drop = 100 * (static["accuracy"] - own["accuracy"])
    error = 100 * own["accuracy_error"]
    side = "below" if drop > 0 else "above"
    near = "the same as" if abs(drop) < 0.005 else f"{abs(drop):.2f} points {side}"
    who = own.get("group", own["policy"])
    who = who.removesuffix(", temperatures fitted")
    if len(who) > 60:
        who = "The committee's policy"
    n = len(results["learners"])
    ahead = share(own["costs"]["free-running"], static["costs"]["free-running"])
    return (
        f"{sentence(who)} answers {percent(own['accuracy'])} right (± {error:.2f}), {near} the static ensemble of {n}, "
        f"at {share(spent, whole)} of its cost on one device ({macs(spent, whole)} of {macs(whole)} MACs) and {ahead} "
        f"of its latency on {n}."
    )


def document(title: str, body: str, *, script: bool = False) -> str:
    """An HTML file around a body, with our style in it.

    Example:
        >>> document("a & b", "<p>x</p>").startswith("<!doctype html>")
        True
    """
    style = (HERE / "page.css").read_text(encoding="utf-8")
    code = f"<script>{(HERE / 'page.js').read_text(encoding='utf-8')}</script>" if script else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)} · quorate</title><style>{style}</style></head><body>{body}{code}</body></html>\n"
    )
