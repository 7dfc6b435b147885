"""What a fault run comes to: summary.json, timeline.html, and a few lines."""

import collections
import json

import history
import timeline


def write(run, options):
    """The exit status of the run."""
    what, journals = history.load(options.out)
    violations = history.check(what, journals)
    violations += [("crashed", f"{event['worker']} ended with {event['status']}")
                   for event in what.events if event["what"] == "crashed"]
    if not what.holds:
        violations.append(("no grants", "nobody was granted anything"))
    if options.peer:
        return write_peer(run, options, what, violations)
    violations += [("leaks", sentence) for sentence in run.leaks.found()]
    verdicts = collections.Counter(line.split()[1] for lines in journals.values() for line in lines)
    summary = beginning(run, options, what) | {
        "holds lost and told": sum(hold.lost is not None for hold in what.holds.values()),
        "writes accepted": verdicts["accepted"], "stale writes refused": verdicts["refused"],
        "longest wait after healing, ms": round(history.longest_wait(what) / history.MS),
        "violations": violations, "workers": run.leaks.workers, "servers": run.leaks.servers}
    keep(summary, options, what, violations)
    print(f"{summary['service']} seed {options.seed}: {summary['faults']} faults, {summary['grants']} grants, "
          f"{summary['holds lost and told']} holds lost and told, {verdicts['accepted']} writes accepted, "
          f"{verdicts['refused']} stale ones refused, {len(violations)} violations")
    for rule, sentence in violations[:50]:
        print(f"  VIOLATED {rule}: {sentence}")
    return 1 if violations else 0


def write_peer(run, options, what, violations):
    """Only what can be asked of a lock without fences: who held it at once, and what that did to the store."""
    found = collections.Counter(rule for rule, _ in violations)
    shown = [each for each in violations if each[0] in ("exclusion", "stale writes")]
    summary = beginning(run, options, what) | {"overlapping holds": found["exclusion"],
                                               "stale writes accepted": found["stale writes"], "violations": shown}
    keep(summary, options, what, shown)
    print(f"{summary['service']} seed {options.seed}: {summary['faults']} faults, {summary['grants']} grants, "
          f"{found['exclusion']} overlapping holds, {found['stale writes']} stale writes accepted")
    return 1 if found["no grants"] else 0


def beginning(run, options, what):
    return {"service": run.cluster.service.name, "version": run.version, "driver": options.driver, "seed": options.seed,
            "seconds": options.seconds, "long pauses": run.long_pauses, "faults": len(what.faults),
            "workers started": run.started, "grants": len(what.holds)}


def keep(summary, options, what, violations):
    with open(f"{options.out}/summary.json", "w") as file:
        json.dump(summary, file, indent=2)
    timeline.draw(what, f"{options.out}/timeline.html", f"{summary['service']}, seed {options.seed}", violations)
