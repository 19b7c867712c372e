#include "pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace qubolearn {

constexpr auto POLL = std::chrono::milliseconds(50);
constexpr int MAX_THREADS = 1024;
// Reading the clock costs as much as a sweep over 8 bits, so calls in quick succession skip some looks at it.
constexpr auto QUICK = std::chrono::milliseconds(1);
constexpr unsigned SKIPPED = 15;

// The pieces of one Control::share, and the threads that help with it.
struct Control::Job {
  Index tasks, piece;
  Body body;
  void* work;
  std::atomic<Index> next{0};
  std::mutex mutex{};
  std::condition_variable left{};
  int helpers = 0;  // at work, guarded by the mutex
};

Control::Control(int threads, Poll poll, void* context)
    : threads_(std::clamp(threads, 1, MAX_THREADS)), poll_(poll), context_(context),
      caller_(std::this_thread::get_id()), next_poll_(std::chrono::steady_clock::now() + POLL) {
  std::fegetenv(&floats_);
  std::fesetenv(FE_DFL_ENV);
}

Control::~Control() { std::fesetenv(&floats_); }

void Control::run(Index tasks, Index piece, Body body, void* work) {
  piece = std::max<Index>(piece, 1);
  if (counts_tasks_) total_ += tasks;
  Job job{tasks, piece, body, work};
  const Index pieces = (tasks + piece - 1) / piece;
  std::vector<std::thread> threads;
  threads.reserve(std::min<Index>(threads_, pieces));
  try {  // a thread takes about 20 µs to start, and a pool would not survive a fork
    while (static_cast<Index>(threads.size()) + 1 < std::min<Index>(threads_, pieces)) {
      const std::lock_guard lock(job.mutex);
      threads.emplace_back([&] {  // it inherits the floating-point environment
        drain(job);
        const std::lock_guard done(job.mutex);
        if (--job.helpers == 0) job.left.notify_all();
      });
      ++job.helpers;
    }
  } catch (...) {  // no more threads or memory: the caller works with the threads it has
  }
  drain(job);
  std::unique_lock lock(job.mutex);
  while (!job.left.wait_for(lock, POLL, [&] { return job.helpers == 0; })) {
    lock.unlock();  // polling may wait for the GIL
    poll_now();
    lock.lock();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  rethrow();
}

void Control::drain(Job& job) noexcept {
  try {
    while (!stopped()) {
      const Index first = job.next.fetch_add(job.piece, std::memory_order_relaxed);
      if (first >= job.tasks) break;
      const Index last = std::min(first + job.piece, job.tasks);
      job.body(job.work, first, last);
      if (counts_tasks_) advance(last - first);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

Index Control::piece(Index tasks) const noexcept {
  return threads_ == 1 ? tasks : (tasks + 8 * threads_ - 1) / (8 * threads_);
}

bool Control::stopped() noexcept {
  if (stop_.load(std::memory_order_relaxed)) return true;
  if (std::this_thread::get_id() != caller_ || (calls_ > 0 && calls_--)) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < QUICK) calls_ = SKIPPED;
  last_look_ = now;
  if (now >= next_poll_) poll_now();
  return stop_.load(std::memory_order_relaxed);
}

void Control::poll_now() noexcept {
  try {
    if (poll_ && !stop_) poll_(context_, total_ ? static_cast<double>(done_) / static_cast<double>(total_) : 0.0);
  } catch (...) {
    fail(std::current_exception());
  }
  next_poll_ = std::chrono::steady_clock::now() + POLL;
}

void Control::fail(std::exception_ptr error) noexcept {
  if (!failed_.exchange(true)) error_ = std::move(error);
  stop_ = true;
}

void Control::rethrow() {
  if (failed_) std::rethrow_exception(error_);
}

void Control::expect(Index work) noexcept {
  total_ = work;
  counts_tasks_ = false;
}

void Control::advance(Index work) noexcept { done_.fetch_add(work, std::memory_order_relaxed); }

}  // namespace qubolearn
