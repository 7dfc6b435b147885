"""Draws a history: one band per lock, who held it when, what was done to the cluster, and what was refused."""

import html

WIDTH = 1600
ROW = 14
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b"]


def draw(history, path, title, violations):
    if not history.events:
        return
    begin, end = history.events[0]["at"], history.events[-1]["at"]

    def x(at):
        return 80 + (WIDTH - 90) * (at - begin) / max(1, end - begin)

    workers = sorted({hold.worker for hold in history.holds.values()}, key=lambda name: int(name[1:] or 0))
    locks = sorted({hold.lock for hold in history.holds.values()})
    parts = []
    for at, name in history.faults:
        parts.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="20" y2="{40 + len(locks) * (len(workers) + 2) * ROW}" '
                     f'class="fault"><title>{html.escape(name)}</title></line>')
    if history.healed:
        parts.append(f'<text x="{x(history.healed):.1f}" y="14" class="healed">healed</text>')
    top = 30
    for lock in locks:
        parts.append(f'<text x="4" y="{top + ROW}" class="lock">{html.escape(lock)}</text>')
        for row, worker in enumerate(workers):
            y = top + row * ROW
            colour = COLOURS[row % len(COLOURS)]
            for hold in history.holds.values():
                if hold.lock != lock or hold.worker != worker or not hold.last:
                    continue
                ended = hold.lost or hold.released or hold.last
                what = f"{worker}, fence {hold.fence}, valid for {(hold.last - hold.first) / 1e6:.0f} ms"
                parts.append(f'<rect x="{x(hold.first):.2f}" y="{y}" width="{max(0.6, x(hold.last) - x(hold.first)):.2f}" '
                             f'height="{ROW - 3}" fill="{colour}"><title>{what}</title></rect>')
                if hold.lost:
                    parts.append(f'<circle cx="{x(ended):.2f}" cy="{y + ROW / 2 - 1}" r="3" class="lost">'
                                 f'<title>{worker} was told of its loss</title></circle>')
            for write in history.writes:
                if write["lock"] == lock and write["worker"] == worker and not write["accepted"]:
                    parts.append(f'<text x="{x(write["at"]):.2f}" y="{y + ROW - 3}" class="refused">✕'
                                 f'<title>stale write, fence {write["fence"]}, refused</title></text>')
        top += (len(workers) + 2) * ROW
    found = "".join(f"<li>{html.escape(rule)}: {html.escape(sentence)}</li>" for rule, sentence in violations)
    verdict = f"<ul class='bad'>{found}</ul>" if violations else "<p>Nothing was violated.</p>"
    with open(path, "w") as file:
        file.write(f"""<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>
body {{ font: 13px sans-serif; }} .lock {{ font-weight: bold; font-size: 12px; }}
.fault {{ stroke: #bbb; stroke-width: 1; }} .healed {{ font-size: 11px; fill: green; }}
.lost {{ fill: none; stroke: #d00; }} .refused {{ fill: #d00; font-size: 12px; }} .bad {{ color: #d00; }}
</style>
<h1>{html.escape(title)}</h1>{verdict}
<p>Bars: valid holds, one row per worker. Grey lines: faults. Red rings: told of a loss. Crosses: stale writes, refused.
Point at anything for what it is.</p>
<svg width="{WIDTH}" height="{top + 10}">{"".join(parts)}</svg>
""")
