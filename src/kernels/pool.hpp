// Threads that share one kernel call, and the caller's signals.
#pragma once
#include <atomic>
#include <cfenv>
#include <chrono>
#include <exception>
#include <thread>

namespace qubolearn {

using Index = std::int64_t;

// One kernel call. All functions are compiled once: kernel variants must not emit shared inline code.
class Control {
 public:
  // poll(context, fraction done) runs on the calling thread, a few times per second; what it throws ends the call.
  using Poll = void (*)(void* context, double fraction);
  Control(int threads, Poll poll, void* context);
  ~Control();

  // Call work(first, last) over pieces of 0 ... tasks - 1, on several threads; results must not depend on the pieces.
  // An exception on any thread stops the others and is rethrown here.
  template <class Work>
  void share(Index tasks, Index piece, Work work) {
    run(tasks, piece, [](void* w, Index first, Index last) { (*static_cast<Work*>(w))(first, last); }, &work);
  }

  // Call work(k) for k = 0 ... tasks - 1, in pieces that keep all threads busy.
  template <class Work>
  void share_each(Index tasks, Work work) {
    share(tasks, 1 + tasks / (16 * threads_), [&](Index first, Index last) {
      for (Index k = first; k < last && !stopped(); ++k) work(k);
    });
  }

  // Return a size of pieces that keeps all threads busy, for work that is prepared once per piece.
  Index piece(Index tasks) const noexcept;

  // Return true if the kernel should return early. Cheap: call it once per sweep, at least every few milliseconds.
  bool stopped() noexcept;

  // Tell how much work the call has in all, and report some as done. Without `expect`, `share` counts its tasks.
  void expect(Index work) noexcept;
  void advance(Index work) noexcept;
  void rethrow();  // what stopped the call, if anything did
  int threads() const noexcept { return threads_; }
 private:
  using Body = void (*)(void* work, Index first, Index last);
  struct Job;
  void run(Index tasks, Index piece, Body body, void* work);
  void drain(Job& job) noexcept;
  void poll_now() noexcept;
  void fail(std::exception_ptr error) noexcept;

  int threads_;
  Poll poll_;
  void* context_;
  std::thread::id caller_;
  std::chrono::steady_clock::time_point next_poll_, last_look_{};
  unsigned calls_ = 0;  // of stopped() by the caller before the next look at the clock
  std::atomic<bool> stop_{false}, failed_{false};
  std::atomic<Index> done_{0};
  Index total_ = 0;
  bool counts_tasks_ = true;
  std::exception_ptr error_;
  std::fenv_t floats_;  // of the caller, while the default holds: torch.set_flush_denormal would change results
};

}  // namespace qubolearn
