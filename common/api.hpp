#pragma once

#include <holdfast/holdfast.hpp>
#include <memory>
#include <string>

#include "common/core.hpp"

// What stands behind the public classes.

namespace holdfast::detail {

class LockState {
 public:
  std::shared_ptr<Handle> handle;
  std::string name;
  Result<std::string> line;  ///< the encoded name, or what is wrong with it
  Kind kind = Kind::lock;
  Rule rule = kExclusive;
};

/// A granted claim in its owner's hands: when this goes, the claim is released.
class HoldState {
 public:
  HoldState(std::shared_ptr<Handle> handle, std::shared_ptr<Claim> claim)
      : handle_(std::move(handle)), claim_(std::move(claim)) {}
  HoldState(HoldState const&) = delete;
  ~HoldState();

  Core& core() const { return handle_->core(); }
  Claim& claim() const { return *claim_; }
  std::shared_ptr<Claim> shared_claim() const { return claim_; }

  /// Hold::commit, but for keys of the library's own as well.
  Result<void> commit(Commit const& what) const;

  bool valid_at(TimePoint now) const noexcept { return !core().forked() && now < claim_->until(); }

 private:
  std::shared_ptr<Handle> handle_;
  std::shared_ptr<Claim> claim_;
};

/// The way in for what is not the user's business: other parts of the library, and the tests.
struct Access {
  static Client client(std::shared_ptr<Handle> handle) { return Client(std::move(handle)); }
  static Lock lock(std::shared_ptr<LockState const> state) { return Lock(std::move(state)); }
  static Hold hold(std::shared_ptr<Handle> handle, std::shared_ptr<Claim> claim) {
    return Hold(std::make_shared<HoldState>(std::move(handle), std::move(claim)));
  }
  static Once once(std::shared_ptr<OnceState const> state) { return Once(std::move(state)); }
  static std::shared_ptr<Handle> const& handle(Client const& client) { return client.handle_; }
  static std::shared_ptr<HoldState> const& state(Hold const& hold) { return hold.state_; }
};

/// A client on a runtime and a backend of the caller's choice, which may not have a session yet.
Result<Client> make_client(Config config, std::shared_ptr<Runtime> runtime, Core::MakeBackend const& make);

}  // namespace holdfast::detail
