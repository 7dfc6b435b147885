#include "zk/proof.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

// The rule of zk/proof.hpp against a model of what a leader, a follower and a client do, searched for a run in which
// the client believes in its session for longer than the leader keeps it. The obvious rules fail in the same model.

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;

constexpr int kTimeout = 1000;
constexpr int kLag = 250;  ///< the leader's pings reach the follower at least this often

TimePoint at(int time) { return TimePoint(std::chrono::milliseconds(time)); }
int ms(TimePoint time) { return static_cast<int>(time.time_since_epoch() / 1ms); }

struct Request {
  int sent = 0;
  bool write = false;
  int at_follower = 0;
  int answered = -1;  ///< when the client hears of it; -1: never, or refused
};

/// One random run: the requests, and when the leader ended the session.
struct Run {
  std::vector<Request> requests;
  int expired = kTimeout;
};

/// What the follower sends to the leader, in order: that it heard of the client, or a write (by its index).
struct Message {
  int at_leader = 0;
  int write = -1;
};

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {}

  Run run() {
    Run run;
    make_requests(run);
    int const cut = pick(0, 5000);  // from then on nothing of the follower reaches the leader; it answers on
    lead(run, follow(run, cut));
    return run;
  }

 private:
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }
  int delay() { return pick(0, 3) ? pick(0, 5) : pick(0, 200); }

  /// Bursts and quiet times.
  void make_requests(Run& run) {
    int arrival = 0;
    for (int now = 0; now < 4000; now += pick(0, 2) ? pick(0, 10) : pick(0, 600)) {
      arrival = std::max(arrival, now + delay());
      run.requests.push_back({now, pick(0, 1) == 0, arrival, -1});
    }
  }

  std::vector<Message> follow(Run& run, int cut) {
    std::vector<Message> link;
    auto const send = [&](int now, int write) {
      int const arrival = std::max(now + delay(), link.empty() ? 0 : link.back().at_leader);
      if (now < cut) link.push_back({arrival, write});
    };
    int ping = pick(1, kLag);
    bool touched = false;
    int heard = 0;
    for (std::size_t i = 0; i < run.requests.size(); ++i) {
      Request& request = run.requests[i];
      for (; ping <= request.at_follower; ping += pick(1, kLag))
        if (std::exchange(touched, false)) send(ping, -1);
      touched = true;
      if (request.write) {
        send(request.at_follower, static_cast<int>(i));
      } else {
        request.answered = heard = std::max(heard, request.at_follower + delay());
      }
    }
    if (touched) send(ping, -1);
    return link;
  }

  void lead(Run& run, std::vector<Message> const& link) {
    for (Message const& message : link) {
      if (message.at_leader >= run.expired) break;
      if (message.write < 0) {
        run.expired = message.at_leader + kTimeout;
      } else {
        run.requests[static_cast<std::size_t>(message.write)].answered = message.at_leader + delay();
      }
    }
  }

  std::mt19937 random_;
};

/// A rule sees requests answered, in the order of the answers, and says from when on a timeout is proven.
using Rule = std::function<std::optional<int>(Request const&)>;

/// How many of the runs have the client believe for too long.
int counter_examples(std::function<Rule()> const& make_rule, unsigned runs) {
  int wrong = 0;
  for (unsigned seed = 0; seed < runs; ++seed) {
    Run const run = Model(seed).run();
    auto answered = run.requests;
    std::erase_if(answered, [](Request const& request) { return request.answered < 0; });
    std::stable_sort(answered.begin(), answered.end(), [](auto& a, auto& b) { return a.answered < b.answered; });
    Rule const rule = make_rule();
    bool const bad = std::any_of(answered.begin(), answered.end(), [&](Request const& request) {
      auto const proven = rule(request);
      return proven && *proven + kTimeout > run.expired;
    });
    wrong += bad ? 1 : 0;
  }
  return wrong;
}

Rule evidence_and_barrier(int lag) {
  return [proof = Proof(std::chrono::milliseconds(lag))](Request const& request) mutable {
    std::optional<int> proven;
    if (request.write)
      if (auto const base = proof.confirmed(at(request.sent))) proven = ms(*base);
    proof.answered(at(request.sent), at(request.answered));
    return proven;
  };
}

TEST(Proof, NoRunOfTheModelOutlivesTheLeader) {
  EXPECT_EQ(counter_examples([] { return evidence_and_barrier(kLag); }, 100'000), 0);
}

TEST(Proof, ALagShorterThanTheLeadersPingsIsNotEnough) {
  EXPECT_GT(counter_examples([] { return evidence_and_barrier(kLag / 2); }, 20'000), 0);
}

TEST(Proof, TheSendingOfAConfirmedWriteProvesTooMuch) {
  auto const naive = [] {
    return Rule([](Request const& request) { return request.write ? std::optional(request.sent) : std::nullopt; });
  };
  EXPECT_GT(counter_examples(naive, 2000), 0);
}

TEST(Proof, SoDoesTheSendingOfTheWriteBeforeIt) {
  auto const naive = [] {
    return Rule([last = std::optional<int>()](Request const& request) mutable {
      return request.write ? std::exchange(last, request.sent) : std::nullopt;
    });
  };
  EXPECT_GT(counter_examples(naive, 2000), 0);
}

TEST(Proof, WritesAThirdOfTheTimeoutApartProveEachOther) {
  Proof proof(250ms);
  proof.answered(at(0), at(5));
  EXPECT_EQ(proof.confirmed(at(333)), at(0));
  proof.answered(at(333), at(340));
  EXPECT_EQ(proof.confirmed(at(500)), at(0)) << "too close to the one before";
  EXPECT_EQ(proof.confirmed(at(666)), at(333));
  EXPECT_EQ(Proof(250ms).confirmed(at(999)), std::nullopt) << "without evidence";
}

TEST(Proof, ABurstDoesNotPushOutWhatIsOldEnough) {
  Proof proof(250ms);
  proof.answered(at(0), at(1));
  for (int i = 1; i < 2000; ++i) proof.answered(at(100 + i / 20), at(101 + i / 20));
  EXPECT_EQ(proof.confirmed(at(260)), at(0));
}

}  // namespace
}  // namespace holdfast::detail
