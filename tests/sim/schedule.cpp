#include "tests/sim/schedule.hpp"

#include <array>
#include <memory>

#include "common/api.hpp"
#include "common/names.hpp"
#include "tests/sim/worker.hpp"

namespace holdfast::sim {
namespace {

using detail::MemoryBackend;
using detail::MemoryService;

constexpr auto kTtl = 3s;
constexpr auto kRequestTimeout = 2s;
constexpr Duration kMischief = 30s;    ///< for so long things go wrong
constexpr Duration kPatience = 120s;   ///< then everybody is served within
constexpr double kMostDrift = 0.0049;  ///< each clock against true time: two of them differ by less than 1 %

/// One client of the library on its machine.
struct Process {
  Process(World& world, std::string const& name, double rate, Duration offset, MemoryService& service, Duration delay)
      : machine(world, name, rate, offset), link(machine, service, delay) {}

  void connect() {
    Config config;
    config.scheme = "memory";
    config.root = "simulated";
    config.ttl = kTtl;
    config.request_timeout = kRequestTimeout;
    config.label = machine.name();
    client.emplace(detail::make_client(std::move(config), runtime, [this](Config const& c, detail::Host& host) {
                     return Result<std::unique_ptr<detail::Backend>>(
                         std::make_unique<MemoryBackend>(c, host, link.make_wire(host)));
                   }).value());
  }

  Machine machine;
  std::shared_ptr<detail::Runtime> runtime = make_runtime(machine);
  Link link;
  std::optional<Client> client;
  std::vector<std::unique_ptr<Worker>> workers;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, bool trace, Break what) : world_(seed, trace), break_(what) {
    faults_ = world_.chance(0.15) ? 0 : static_cast<unsigned>(world_.below(64));
    if (what == Break::drift) faults_ |= cuts | pauses;
    if (what == Break::guard) faults_ |= cuts;
    bool const tampers = (faults_ & tampering) != 0;
    checker_.emplace(world_, tampers);
    shared_.emplace(Shared{
        world_, *checker_, service_, kTtl, kRequestTimeout, faults_ == 0 && what == Break::nothing, false, false, {}});
    if (what == Break::tamper) faults_ |= tampering;
    if (what == Break::guard) service_.ignore_guards();
    service_.observe_commits([this](std::string const& line, detail::EntryRef const& entry, Commit const& commit) {
      checker_->committed(line, entry, commit);
    });
    service_.observe([this](MemoryService::Change const& change) {
      checker_->changed(change);
      if (change.what != MemoryService::Change::What::joined) expect_served(change.line);
    });
    // Some schedules are about everything at once, some about readers and writers, some about a semaphore alone.
    static constexpr std::array<std::size_t, 4> focus{0, 0, 3, 5};
    first_use_ = focus[world_.below(focus.size())];
    std::size_t const n = 1 + world_.below(4);
    for (std::size_t i = 0; i < n; ++i) add_process("client-" + std::to_string(i + 1));
  }

  Outcome run() {
    for (auto const& process : processes_) mischief(*process);
    while (world_.now() < TimePoint(kMischief) && step()) {
    }
    wind_up();
    end();
    shared_->counts["schedules"] = 1;
    if (faults_ == 0) shared_->counts["schedules where nothing went wrong"] = 1;
    for (auto const& process : processes_) shared_->counts["requests delivered late"] += process->link.late();
    return {world_.verdict(), shared_->counts, world_.record()};
  }

 private:
  enum Fault : unsigned { cuts = 1, pauses = 2, kills = 4, closes = 8, tampering = 16, blocks = 32 };

  double rate() {
    double const most = break_ == Break::drift ? 0.2 : kMostDrift;
    return world_.chance(0.3) ? 1 + most : world_.chance(0.4) ? 1 - most : 1;
  }

  void add_process(std::string const& name) {
    Duration const delay = world_.chance(0.5) && faults_ != 0 ? 800ms : 20ms;
    processes_.push_back(std::make_unique<Process>(world_, name, rate(), world_.between(0s, 1000s), service_, delay));
    Process& process = *processes_.back();
    if (break_ == Break::notices) process.link.lose_notices();
    if (break_ == Break::deaf) process.machine.deafen();
    process.connect();
    std::size_t const n = 1 + world_.below(4);
    for (std::size_t i = 0; i < n; ++i) add_worker(process, name + "/" + std::to_string(i + 1));
  }

  void add_worker(Process& process, std::string const& name) {
    struct Use {
      char const* line;
      Kind kind;
      Rule rule;
    };
    static constexpr std::array<Use, 6> uses{{{"lock", Kind::lock, detail::kExclusive},
                                              {"lock", Kind::lock, detail::kExclusive},
                                              {"lock", Kind::lock, detail::kExclusive},
                                              {"book", Kind::write, detail::kExclusive},
                                              {"book", Kind::read, detail::kReader},
                                              {"pool", Kind::permit, detail::semaphore(2)}}};
    Use const use = uses[first_use_ + world_.below(uses.size() - first_use_)];
    auto lock = detail::Access::lock(std::make_shared<detail::LockState>(detail::LockState{
        detail::Access::handle(*process.client), use.line, detail::encode_name(use.line), use.kind, use.rule}));
    process.workers.push_back(std::make_unique<Worker>(*shared_, process.machine, process.link, name, std::move(lock),
                                                       use.line, use.kind, use.rule));
    process.workers.back()->start();
  }

  /// One mishap after the other, while they last.
  void mischief(Process& process) {
    if (faults_ == 0) return;
    world_.after(world_.between(0s, 8s), [this, &process] {
      if (world_.now() > TimePoint(kMischief)) return;
      mishap(process);
      mischief(process);
    });
  }

  void mishap(Process& process) {
    auto const fault = static_cast<Fault>(1U << world_.below(6));
    if ((faults_ & fault) == 0 || process.machine.dead()) return;
    switch (fault) {
      case cuts:
        ++shared_->counts["connections cut"];
        return process.link.cut(world_.chance(0.5) ? 0s : world_.between(0s, kTtl), world_.between(0s, 2 * kTtl));
      case pauses:
        if (process.machine.paused()) return;
        ++shared_->counts["processes stopped"];
        process.machine.pause();
        return world_.after(world_.between(0s, 2 * kTtl), [&process] { process.machine.resume(); });
      case kills:
        if (!world_.chance(0.3)) return;
        ++shared_->counts["processes killed"];
        world_.say(process.machine.name(), "is killed");
        for (auto const& worker : process.workers) checker_->forget(worker->name());
        return process.machine.kill();
      case closes: return process.machine.run([this, &process] { close(process); });
      case tampering: return tamper();
      case blocks:
        ++shared_->counts["callbacks that block"];
        return process.machine.block_callbacks(world_.between(0s, 3 * kTtl));
    }
  }

  void close(Process& process) {
    if (!world_.chance(0.3)) return;
    ++shared_->counts["clients closed"];
    world_.say(process.machine.name(), "closes its client");
    for (auto const& worker : process.workers) {
      worker->client_closed();
      checker_->forget(worker->name());
    }
    (void)process.client->close();
    expect_handed_over(process);
  }

  void tamper() {
    if (world_.chance(0.2)) {
      ++shared_->counts["sessions ended by an operator"];
      world_.say("operator", "ends all sessions");
      return service_.expire_all();
    }
    for (auto const& [name, line] : checker_->lines()) {
      if (line.empty() || !world_.chance(0.7)) continue;
      ++shared_->counts["entries removed by an operator"];
      // Mostly whoever is first, else somebody who waits.
      auto const number =
          std::next(line.begin(), static_cast<std::ptrdiff_t>(world_.chance(0.5) ? 0 : world_.below(line.size())))
              ->first;
      for (auto const& entry : service_.list(name))
        if (entry.ref.number == number) service_.remove(name, entry.ref);
      expect_noticed(name, number);
      return;
    }
  }

  /// Whoever holds what was removed knows it within a beat, if it runs and is connected.
  void expect_noticed(std::string const& line, std::uint64_t number) {
    TimePoint const then = world_.now();
    world_.after(kTtl / 3 + 1700ms, [this, line, number, then] {
      for (auto const& process : processes_) {
        if (!running_since(*process, then)) continue;
        for (auto const& worker : process->workers)
          if (Held const* const held = worker->held(); held && held->line == line &&
                                                       held->hold.fence().token() == number && held->hold.valid() &&
                                                       break_ == Break::nothing)
            world_.broke("loss is told", held->who + " does not know that its entry was removed a beat ago");
      }
    });
  }

  /// Whoever a departure admits is in soon, if it runs and is connected: no permit lies about while somebody waits.
  void expect_served(std::string const& line) {
    TimePoint const then = world_.now();
    for (auto const& process : processes_)
      for (auto const& worker : process->workers) {
        if (!worker->pending() || worker->line() != line) continue;
        auto const entry = checker_->admitted(line, worker->label(), worker->rule());
        if (!entry) continue;
        world_.after(4s, [this, then, line, entry, &process = *process, &worker = *worker, label = worker->label()] {
          if (break_ == Break::nothing && running_since(process, then) && worker.pending() && worker.label() == label &&
              checker_->admitted(line, label, worker.rule()) == entry)
            world_.broke("nobody is forgotten", label + " could have been in for 4 s; " + checker_->describe());
        });
      }
  }

  /// A client that is closed leaves nothing to its lease.
  void expect_handed_over(Process& process) {
    TimePoint const then = world_.now();
    world_.after(1700ms, [this, &process, then] {
      if (!running_since(process, then)) return;
      for (auto const& worker : process.workers)
        if (checker_->stands(worker->name()))
          world_.broke("an orderly end hands over at once",
                       worker->name() + " still stands in line after its client was closed; " + checker_->describe());
    });
  }

  bool running_since(Process& process, TimePoint when) {
    return !process.machine.dead() && !process.machine.paused() && !process.machine.callbacks_blocked() &&
           process.machine.last_mishap() < when && process.link.up() && process.link.last_mishap() < when;
  }

  bool step() {
    if (!world_.step()) return false;
    arm_expiry();
    std::vector<Held*> holds;
    for (auto const& process : processes_)
      for (auto const& worker : process->workers)
        if (Held* const held = worker->held()) holds.push_back(held);
    checker_->after_step(holds);
    return !world_.broken();
  }

  /// The service's own clock ends sessions, whether or not somebody asks.
  void arm_expiry() {
    TimePoint const next = service_.next_expiry();
    if (next == expiry_armed_ || next == detail::kNever) return;
    expiry_armed_ = next;
    world_.after(std::max(next - world_.now(), Duration::zero()), [this] { service_.tick(); });
  }

  /// The mishaps are over: everybody who waits is served, and nothing is left behind.
  void wind_up() {
    shared_->winding_up = true;
    for (auto const& process : processes_) process->link.heal();
    world_.say("schedule", "nothing goes wrong from here on");
    TimePoint const end = world_.now() + kPatience;
    while (busy() && world_.now() < end && step()) {
    }
    if (world_.broken()) return;
    if (busy())
      return world_.broke("nobody is forgotten", "not served: " + who_is_busy() + "; " + checker_->describe());
    TimePoint const calm = world_.now() + 4 * kTtl;
    while (world_.now() < calm && step()) {
    }
    if (checker_->entries() > 0) world_.broke("nothing is left behind", checker_->describe());
  }

  bool busy() const { return !who_is_busy().empty(); }
  std::string who_is_busy() const {
    std::string who;
    for (auto const& process : processes_)
      for (auto const& worker : process->workers)
        if (worker->busy() && !worker->dead()) who += (who.empty() ? "" : ", ") + worker->name();
    return who;
  }

  void end() {
    shared_->over = true;
    for (auto const& process : processes_) {
      process->machine.end();
      (void)process->client->close();
      process->machine.end();
      process->runtime->stop({});
      for (auto const& worker : process->workers) worker->drop();
      process->workers.clear();
      process->client.reset();
    }
    world_.clear();
  }

  World world_;
  MemoryService service_{[this] { return world_.now(); }};
  Break const break_;
  unsigned faults_ = 0;
  std::size_t first_use_ = 0;
  std::optional<Checker> checker_;
  std::optional<Shared> shared_;
  std::vector<std::unique_ptr<Process>> processes_;
  TimePoint expiry_armed_ = detail::kNever;
};

}  // namespace

Outcome run_schedule(std::uint64_t seed, bool trace, Break what) { return Schedule(seed, trace, what).run(); }

}  // namespace holdfast::sim
