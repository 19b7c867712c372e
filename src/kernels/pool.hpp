// Threads that share one kernel call, and the caller's signals.
#pragma once
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>

namespace qubolearn {

// One kernel call: how many threads it may use, whether it should stop, and how much of it is done.
// All functions are compiled once, for every processor: kernel variants must not emit shared inline code.
class Control {
 public:
  // poll(context, fraction done) runs on the calling thread, a few times per second; what it throws ends the call.
  using Poll = void (*)(void* context, double fraction);
  Control(int threads, Poll poll, void* context);
  ~Control();

  // Call work(first, last) over pieces of 0 ... tasks - 1, on several threads; results must not depend on the pieces.
  // Returns early when stopped. An exception on any thread stops the others and is rethrown here.
  template <class Work>
  void share(std::int64_t tasks, std::int64_t piece, Work work) {
    run(tasks, piece, [](void* w, std::int64_t first, std::int64_t last) { (*static_cast<Work*>(w))(first, last); },
        &work);
  }

  // Call work(k) for k = 0 ... tasks - 1, in pieces that keep all threads busy.
  template <class Work>
  void share_each(std::int64_t tasks, Work work) {
    share(tasks, 1 + tasks / (16 * threads_), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last && !stopped(); ++k) work(k);
    });
  }

  // Return a size of pieces that keeps all threads busy, for work that is prepared once per piece.
  std::int64_t piece(std::int64_t tasks) const noexcept;

  // Return true if the kernel should return early. Cheap: call it once per sweep, at least every few milliseconds.
  bool stopped() noexcept;

  // Tell how much work the call has in all, in any unit, and report some of it as done. Without `expect`, `share` counts
  // its tasks.
  void expect(std::int64_t work) noexcept;
  void advance(std::int64_t work) noexcept;

  // Rethrow what stopped the call, if anything did.
  void rethrow();

  int threads() const noexcept { return threads_; }

 private:
  using Body = void (*)(void* work, std::int64_t first, std::int64_t last);
  struct Job;
  void run(std::int64_t tasks, std::int64_t piece, Body body, void* work);
  void drain(Job& job) noexcept;
  void poll_now() noexcept;
  void fail(std::exception_ptr error) noexcept;

  int threads_;
  Poll poll_;
  void* context_;
  std::thread::id caller_;
  std::chrono::steady_clock::time_point next_poll_;
  unsigned calls_ = 0;  // of stopped() by the caller
  std::atomic<bool> stop_{false}, failed_{false};
  std::atomic<std::int64_t> done_{0};
  std::int64_t total_ = 0;
  bool counts_tasks_ = true;
  std::exception_ptr error_;
  std::fenv_t floats_;  // of the caller, while the default holds: torch.set_flush_denormal would change results
};

}  // namespace qubolearn
