#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "tools/check.hpp"
#include "tools/exit_codes.hpp"
#include "tools/ls.hpp"
#include "tools/run.hpp"
#include "tools/text.hpp"

namespace {

using namespace holdfast::tool;

constexpr char kAbout[] = "Locks that reach as far as your cluster, for commands and scripts.";

constexpr char kExamples[] = R"(Examples:
  One nightly job for the whole cluster: a crontab line, the same on every host. Who gets the lock runs it; should that
  fail, the next one does; all others say by whom it was done, and exit with 0. (% is special in a crontab.)
    0 3 * * *  holdfast run --url etcd://h1,h2,h3/cron --once $(date +\%F) nightly-report -- /usr/local/bin/report

  Deploys one after the other, in the order in which they came:
    export HOLDFAST_URL=zk://h1:2181,h2:2181/deploy
    holdfast run production -- ./deploy.sh

  Who holds it, and who waits?
    holdfast ls production

  Is the caller still the one who may write? (HOLDFAST_SEQUENCER is set for the command)
    holdfast check "$HOLDFAST_SEQUENCER" && echo yes

`holdfast run --help` says more.)";

constexpr char kRunHelp[] = R"(CMD finds in its environment:
  HOLDFAST_LOCK         the lock's name
  HOLDFAST_FENCE        a number that grows with every grant: send it along with every write
  HOLDFAST_FENCE_EPOCH  compare this first if you ever change the service
  HOLDFAST_SEQUENCER    a proof of the hold, for `holdfast check`

If the hold can no longer be proven, CMD gets TERM while the grace still fits before the deadline, and KILL at it.

With --once, that CMD ended with 0 is recorded in the service, for good, as long as the lock is still held: the record
names the label, the time and the fence. CMD is run again, by whoever comes next, if it failed or if that could not be
recorded (76: the lock was lost first).

Exit code: that of CMD; 128+n if signal n ended it; 126 or 127 if it could not be started;
  75 not acquired in time   76 the lock was lost and CMD was stopped   69 the service cannot be reached
  64 usage                  77 not permitted                           78 damaged state, or not supported

Examples:
  holdfast run --local backup -- tar czf /backup/home.tgz /home
  holdfast run --wait 30s --grace 7s db/migrate -- sh -c 'psql -v fence="$HOLDFAST_FENCE" -f migrate.sql'
  */5 * * * *  holdfast run --url etcd://h1,h2,h3/cron --wait 0s poll-feed -- /usr/local/bin/poll-feed
  holdfast run --once v42 schema -- ./migrate-to-v42)";

/// CLI11 knows nothing of what comes after `--`.
class Formatter : public CLI::Formatter {
 public:
  std::string make_usage(CLI::App const* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_name() != "run") return usage;
    return usage.insert(usage.find_last_not_of('\n') + 1, " -- CMD...");
  }
};

void add_place(CLI::App& app, Place& place) {
  auto* const url = app.add_option("--url", place.url,
                                   "Where the locks are: etcd://h1:2379,h2:2379/root, zk://h1:2181/root or "
                                   "file:/directory, with ?ttl=15s and more; else HOLDFAST_URL");
  app.add_flag("--local", place.local, "A directory of yours on this host, and that is meant")->excludes(url);
}

void add_duration(CLI::App& app, char const* name, std::optional<std::chrono::milliseconds>& into, char const* help) {
  app.add_option_function<std::string>(
         name,
         [&into, name](std::string const& text) {
           into = parse_duration(text);
           if (!into) {
             throw CLI::ValidationError(name, "'" + text + "' is not a duration, as in 250ms, 10s, 5m or 1h");
           }
         },
         help)
      ->type_name("DURATION");
}

CLI::App* add_run(CLI::App& app, RunOptions& options) {
  auto* const run = app.add_subcommand("run", "Run a command while holding a lock");
  add_place(*run, options.place);
  add_duration(*run, "--wait", options.wait, "Give up after this long; 0s: one look; not given: as long as it takes");
  add_duration(
      *run, "--grace", options.grace,
      "How long CMD gets between TERM and KILL if the lock is being lost (5s, or about a third of the ttl if less)");
  run->add_option(
         "--once", options.once,
         "Run CMD at most once successfully per KEY, whoever runs it; if it was done before, say by whom, and exit "
         "with 0")
      ->type_name("KEY");
  run->add_option("--label", options.label, "What others see in `holdfast ls` (host:pid)");
  run->add_option("NAME", options.name, "The lock's name")->required();
  run->footer(kRunHelp);
  return run;
}

CLI::App* add_ls(CLI::App& app, LsOptions& options) {
  auto* const ls = app.add_subcommand("ls", "Show who holds locks and who waits for them");
  add_place(*ls, options.place);
  ls->add_flag("--json", options.json, "An array of objects instead of lines");
  ls->add_option("NAME", options.names, "Only these locks");
  ls->footer("Each line: name, holder or waiter and its place, label, fence, for how long; separated by tabs.");
  return ls;
}

CLI::App* add_check(CLI::App& app, Place& place, std::string& sequencer) {
  auto* const check = app.add_subcommand("check", "Say whether a sequencer's hold still stands");
  add_place(*check, place);
  check->add_option("SEQUENCER", sequencer, "What HOLDFAST_SEQUENCER was in the command that holds")->required();
  check->footer("Prints \"current\" and exits with 0, or \"stale\" and exits with 1.");
  return check;
}

int usage(char const* what) {
  std::fprintf(stderr, "holdfast: %s\n", what);
  return exit_codes::usage;
}

}  // namespace

int main(int argc, char** argv) {
  // The command after `--` is not ours to interpret; CLI11 would look for our own words in it.
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  RunOptions run_options;
  if (dashes != end) run_options.command.assign(dashes + 1, end);

  CLI::App app(kAbout, "holdfast");
  app.formatter(std::make_shared<Formatter>());
  app.require_subcommand(1);
  app.footer(kExamples);
  LsOptions ls_options;
  Place check_place;
  std::string sequencer;
  auto const* const run_app = add_run(app, run_options);
  auto const* const ls_app = add_ls(app, ls_options);
  add_check(app, check_place, sequencer);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? exit_codes::ok : exit_codes::usage;
  }

  if (*run_app) {
    if (run_options.command.empty()) return usage("run: no command; it comes after --, as in: run NAME -- CMD");
    return run(run_options);
  }
  if (dashes != end) return usage("only run takes a command after --");
  return *ls_app ? ls(ls_options) : check(check_place, sequencer);
}
