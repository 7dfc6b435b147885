#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>

#include "etcd/proof.hpp"

// A model of what matters in an etcd cluster for the life of one lease, searched for schedules in which a client
// believes in its lease after the true leader let it go. Rules that are too simple are searched as well: if the model
// could not refute those, it would prove nothing.

namespace holdfast::detail::etcd {
namespace {

using namespace std::chrono_literals;

constexpr int kMembers = 3;
constexpr int kTtl = 10;  ///< in ticks of the model

TimePoint at(int tick) { return TimePoint(std::chrono::seconds(tick)); }

/// Members know a term each; the leader of a term is whoever was elected in it. A member that was paused, or cut off,
/// keeps its old term, and if it led then, it still believes so and answers renewals.
struct Model {
  explicit Model(unsigned seed) : random(seed) {}

  struct Member {
    std::uint64_t term = 1;
    int expiry = 0;  ///< of the lease by this member's own reckoning, while it leads
    bool cut = false;
  };

  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random); }
  bool leads(int member) const {
    return leader_of_term.at(members[static_cast<std::size_t>(member)].term - 1) == member;
  }
  std::uint64_t newest() const { return leader_of_term.size(); }
  Member& leader() { return members[static_cast<std::size_t>(leader_of_term.back())]; }

  /// The true leader revokes what has expired: the guard is gone for everyone who reads linearizably.
  void tick() {
    ++now;
    if (leader().expiry <= now) guard = false;
  }

  void elect(int member) {
    if (members[static_cast<std::size_t>(member)].cut) return;
    leader_of_term.push_back(member);
    for (auto& each : members)
      if (!each.cut) each.term = newest();
    members[static_cast<std::size_t>(member)].term = newest();
    leader().expiry = now + kTtl;  // a new leader starts every lease anew
  }

  /// A renewal handled by `member`: it is renewed by whoever leads in this member's eyes, if that one agrees.
  bool renew(int member) {
    Member& here = members[static_cast<std::size_t>(member)];
    int const chief = leader_of_term.at(here.term - 1);
    Member& there = members[static_cast<std::size_t>(chief)];
    if (there.term != here.term || (chief != member && (here.cut || there.cut))) return false;
    if (here.term == newest() && !guard) return false;
    there.expiry = now + kTtl;
    return true;
  }

  /// A linearizable read is answered only through the leader of the newest term, and brings the member up to date.
  bool read(int member) {
    Member& here = members[static_cast<std::size_t>(member)];
    if (here.cut || leader().cut) return false;
    here.term = newest();
    return true;
  }

  std::mt19937 random;
  int now = 0;
  bool guard = true;
  std::array<Member, kMembers> members{Member{1, kTtl, false}, Member{}, Member{}};
  std::vector<int> leader_of_term{0};
};

/// What a client does with the answers; proven until then.
struct Client {
  virtual ~Client() = default;
  virtual void known(Stamp) {}
  virtual void renewing(int) = 0;
  virtual int renewed(Stamp) { return 0; }
  virtual int confirmed(Stamp) { return 0; }
};

struct OurRule : Client {
  void known(Stamp stamp) override { proof.heard(stamp); }
  void renewing(int now) override { proof.renewing(at(now)); }
  int renewed(Stamp stamp) override {
    proof.renewed(stamp);
    return 0;
  }
  int confirmed(Stamp stamp) override {
    auto const sent = proof.confirmed(stamp);
    return sent ? static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(sent->time_since_epoch()).count()) +
                      kTtl
                : 0;
  }
  RenewalProof proof;
};

/// What most clients do: the answer to a renewal counts.
struct AnswerCounts : Client {
  void renewing(int now) override { sent = now; }
  int renewed(Stamp) override { return sent + kTtl; }
  int sent = 0;
};

/// A read afterwards, but no look at the terms.
struct ReadCounts : Client {
  void renewing(int now) override { sent = now; }
  int confirmed(Stamp) override { return sent + kTtl; }
  int sent = 0;
};

/// Terms compared with each other, but not with what was known before.
struct NoTermBefore : Client {
  void renewing(int now) override { sent = now; }
  int renewed(Stamp stamp) override {
    first = stamp;
    return 0;
  }
  int confirmed(Stamp stamp) override { return stamp == first ? sent + kTtl : 0; }
  int sent = 0;
  Stamp first;
};

/// One random schedule; true if the client believed in a lease that was gone.
bool refuted(unsigned seed, Client& client) {
  Model model(seed);
  int const member = model.pick(kMembers);
  auto const stamp = [&] { return Stamp{7, model.members[static_cast<std::size_t>(member)].term}; };
  client.known(stamp());
  int until = 0;
  enum { idle, sent, answered, reading } state = idle;
  Stamp reply;
  for (int step = 0; step < 120; ++step) {
    int const other = model.pick(kMembers);
    switch (model.pick(9)) {
      case 0: model.members[static_cast<std::size_t>(other)].cut = true; break;
      case 1: model.members[static_cast<std::size_t>(other)].cut = false; break;
      case 2: model.elect(other); break;
      case 3:
        if (auto& each = model.members[static_cast<std::size_t>(other)]; !each.cut) each.term = model.newest();
        break;
      case 4:
      case 5: model.tick(); break;
      default:
        if (state == idle) {
          client.renewing(model.now);
          state = sent;
        } else if (state == sent) {
          if (model.renew(member)) {
            // The header is filled in when the answer is written, which may be later than the renewal itself.
            state = answered;
          } else {
            state = idle;
          }
        } else if (state == answered) {
          reply = stamp();
          until = std::max(until, client.renewed(reply));
          state = reading;
        } else if (model.read(member)) {
          if (!model.guard) return false;  // it learns of the loss
          until = std::max(until, client.confirmed(stamp()));
          state = idle;
        }
    }
    if (!model.guard && until > model.now) return true;
  }
  return false;
}

int counter_examples(std::function<std::unique_ptr<Client>()> const& make) {
  int found = 0;
  for (unsigned seed = 0; seed < 50'000; ++seed) found += refuted(seed, *make()) ? 1 : 0;
  return found;
}

TEST(RenewalProof, NoScheduleRefutesIt) {
  EXPECT_EQ(counter_examples([] { return std::make_unique<OurRule>(); }), 0);
}

TEST(RenewalProof, ACalmClusterProvesEveryRenewal) {
  RenewalProof proof;
  Stamp const calm{7, 3};
  proof.heard(calm);
  for (int now : {1, 2, 3}) {
    proof.renewing(at(now));
    proof.renewed(calm);
    EXPECT_EQ(proof.confirmed(calm), at(now));
    EXPECT_EQ(proof.confirmed(calm), std::nullopt) << "one answer proves once";
  }
  proof.forget();
  proof.renewing(at(4));
  proof.renewed(calm);
  EXPECT_EQ(proof.confirmed(calm), std::nullopt) << "the term before is not known on a new connection";
}

TEST(RenewalProof, SimplerRulesAreRefuted) {
  EXPECT_GT(counter_examples([] { return std::make_unique<AnswerCounts>(); }), 0) << "any answer counts";
  EXPECT_GT(counter_examples([] { return std::make_unique<ReadCounts>(); }), 0) << "terms are not looked at";
  EXPECT_GT(counter_examples([] { return std::make_unique<NoTermBefore>(); }), 0) << "the term before is not known";
}

}  // namespace
}  // namespace holdfast::detail::etcd
