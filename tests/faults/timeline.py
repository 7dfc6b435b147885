"""Draws a history: what was broken, and below it one lane per lock with who held it when, what was lost, and what the
store refused."""

import html

SECOND = 1_000_000_000
LEFT = 80
LANE = 26
HEAD = 62
COLOURS = ["#4c78a8", "#f2a65a", "#6aa84f", "#b279a2", "#72b7b2", "#c9b037", "#8d6e63", "#7f8ec6", "#a3c76d", "#d88fb0"]
FAULTS = {"kill": "#b00020", "pause": "#e8871e", "cut": "#7b2d8b", "stop": "#e8871e", "break": "#222222",
          "delay": "#9fb7c9", "hold": "#5f7f99"}
LEGEND = [("kill", "killed"), ("pause", "paused, stopped"), ("cut", "cut off from its peers"), ("break", "connections broken"),
          ("delay", "delayed"), ("hold", "nothing flows")]
STYLE = """
text { font: 11px sans-serif; fill: #333; } .title { font-size: 15px; font-weight: bold; } .who { fill: #fff; font-size: 10px; }
.lane { fill: #f4f4f4; } .away { fill-opacity: .35; } .both { fill: none; stroke: #d00; stroke-width: 2; }
.lost { fill: #fff; stroke: #d00; stroke-width: 1.5; } .refused { stroke: #d00; stroke-width: 2; } .axis { fill: #888; }
.healed { stroke: #2a2; stroke-width: 2; }
"""


class Picture:
    def __init__(self, history, begin, end, width):
        self.history, self.begin, self.end = history, begin, end
        self.scale = (width - LEFT - 10) / max(1, end - begin)
        self.width = width
        self.parts = []
        self.top = HEAD

    def x(self, at):
        return LEFT + (min(max(at, self.begin), self.end) - self.begin) * self.scale

    def shows(self, since, to):
        return since < self.end and to > self.begin

    def put(self, text):
        self.parts.append(text)

    def bar(self, since, to, y, height, title, **attributes):
        """Its width on the picture; nothing if it is not in it."""
        if not self.shows(since, to):
            return 0
        width = max(1.0, self.x(to) - self.x(since))
        more = "".join(f' {name.rstrip("_")}="{value}"' for name, value in attributes.items())
        self.put(f'<rect x="{self.x(since):.1f}" y="{y}" width="{width:.1f}" height="{height}"{more}>'
                 f'<title>{html.escape(title)}</title></rect>')
        return width

    def lane(self, name):
        y = self.top
        self.put(f'<rect x="{LEFT}" y="{y}" width="{self.width - LEFT - 10}" height="{LANE - 4}" class="lane"/>'
                 f'<text x="6" y="{y + 15}">{html.escape(name)}</text>')
        self.top += LANE
        return y

    # ---- what was broken

    def faults(self):
        for member in sorted({target for fault in self.history.faults if fault["track"] != "workers"
                              for target in fault["targets"]}):
            y = self.lane(f"member {member}")
            for fault in self.history.faults:
                if fault["track"] != "workers" and member in fault["targets"]:
                    upper = fault["track"] == "members"
                    self.fault(fault, y + (1 if upper else 15), 13 if upper else 6)
        y = self.lane("workers")
        for fault in self.history.faults:
            if fault["track"] == "workers":
                width = self.fault(fault, y + 1, LANE - 6)
                if width > 24:
                    self.put(f'<text x="{self.x(fault["at"]) + 3:.1f}" y="{y + 15}" class="who">{fault["targets"][0]}</text>')
        self.top += 10

    def fault(self, fault, y, height):
        end = fault["at"] + max((fault["length"] or 0) * SECOND, 2 / self.scale)
        return self.bar(fault["at"], min(end, self.history.healed or end), y, height, fault["name"],
                        fill=FAULTS[fault["verb"]])

    # ---- the locks

    def lock(self, name):
        y = self.lane(name)
        holds = sorted((hold for hold in self.history.holds.values() if hold.lock == name and hold.last),
                       key=lambda hold: hold.first)
        latest = None
        for hold in holds:
            self.hold(hold, y)
            if latest and hold.first < latest.last:
                self.bar(hold.first, min(hold.last, latest.last), y - 1, LANE - 2, "both held it", class_="both")
            latest = hold if not latest or hold.last > latest.last else latest
        for hold in holds:
            if hold.lost and self.begin <= hold.lost <= self.end:
                self.put(f'<circle cx="{self.x(hold.lost):.1f}" cy="{y + 11}" r="4" class="lost">'
                         f'<title>{hold} was told of its loss</title></circle>')
        for write in self.history.writes:
            if write["lock"] == name and write["stale"] and self.begin <= write["at"] <= self.end:
                x = self.x(write["at"])
                self.put(f'<path d="M{x - 4:.1f} {y + 7}l8 8m0 -8l-8 8" class="refused"><title>stale write of '
                         f'{write["worker"]}, fence {write["fence"]}: {"accepted" if write["accepted"] else "refused"}'
                         '</title></path>')

    def hold(self, hold, y):
        colour = COLOURS[int(hold.worker[1:]) % len(COLOURS)]
        width = self.bar(hold.first, hold.looked, y + 1, LANE - 6, f"{hold}, {(hold.last - hold.first) / 1e6:.0f} ms",
                         fill=colour)
        if hold.last > hold.looked:
            self.bar(hold.looked, hold.last, y + 1, LANE - 6, f"{hold} was stopped, and valid until its deadline",
                     fill=colour, class_="away")
        if width > 24:
            self.put(f'<text x="{self.x(hold.first) + 3:.1f}" y="{y + 15}" class="who">{hold.worker}</text>')

    # ---- around it

    def head(self, title, verdict):
        self.put(f'<text x="6" y="18" class="title">{html.escape(title)}</text><text x="6" y="34">{html.escape(verdict)}</text>')
        x = 6
        for verb, meaning in LEGEND:
            self.put(f'<rect x="{x}" y="43" width="12" height="10" fill="{FAULTS[verb]}"/><text x="{x + 16}" y="52">{meaning}</text>')
            x += 30 + 6 * len(meaning)
        self.put(f'<rect x="{x}" y="43" width="24" height="10" fill="{COLOURS[0]}"/>'
                 f'<rect x="{x + 24}" y="43" width="24" height="10" fill="{COLOURS[0]}" class="away"/>'
                 f'<text x="{x + 52}" y="52">held and valid; while stopped</text>'
                 f'<circle cx="{x + 222}" cy="48" r="4" class="lost"/><text x="{x + 230}" y="52">told of a loss</text>'
                 f'<path d="M{x + 312} 44l8 8m0 -8l-8 8" class="refused"/><text x="{x + 324}" y="52">stale write</text>'
                 f'<rect x="{x + 394}" y="43" width="16" height="10" class="both"/><text x="{x + 414}" y="52">two at once</text>')

    def axis(self):
        step = next(step for step in (1, 2, 5, 10, 30, 60, 300, 1800) if step * SECOND * self.scale > 40)
        first = self.history.events[0]["at"]
        for second in range(0, int((self.end - first) / SECOND) + 1, step):
            at = first + second * SECOND
            if at >= self.begin:
                self.put(f'<text x="{self.x(at):.1f}" y="{self.top + 12}" class="axis">{second} s</text>')
        if self.history.healed and self.begin <= self.history.healed <= self.end:
            x = self.x(self.history.healed)
            self.put(f'<path d="M{x:.1f} {HEAD}V{self.top}" class="healed"/><text x="{x + 4:.1f}" y="{HEAD - 2}">healed</text>')

    def svg(self):
        height = self.top + 20
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
                f'viewBox="0 0 {self.width} {height}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
                f'{chr(10).join(self.parts)}</svg>\n')


def svg(history, title, verdict, window=None, width=None):
    """`window`: from when to when, in seconds from the beginning; all of it unless given."""
    first, last = history.events[0]["at"], history.events[-1]["at"]
    begin, end = (first + part * SECOND for part in window) if window else (first, last)
    picture = Picture(history, begin, end, width or max(1600, int((end - begin) / SECOND * 25)))
    picture.head(title, verdict)
    picture.faults()
    for lock in sorted({hold.lock for hold in history.holds.values()}):
        picture.lock(lock)
    picture.axis()
    return picture.svg()


def draw(history, path, title, violations):
    found = "".join(f"<li>{html.escape(rule)}: {html.escape(sentence)}</li>" for rule, sentence in violations)
    verdict = f"{len(violations)} violations, listed below." if violations else "Nothing was violated."
    with open(path, "w") as file:
        file.write(f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
                   f"{svg(history, title, verdict + ' Point at anything for what it is.')}<ul>{found}</ul>\n")
