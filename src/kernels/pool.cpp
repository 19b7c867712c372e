#include "pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#ifndef _WIN32
#include <pthread.h>
#endif

namespace qubolearn {
namespace {

constexpr auto POLL = std::chrono::milliseconds(50);
constexpr unsigned CALLS_PER_CLOCK = 16;  // reading the clock costs as much as a sweep over 8 bits
constexpr int MAX_THREADS = 1024;

}  // namespace

// The pieces of one Control::share.
struct Control::Job {
  Control& control;
  std::int64_t tasks, piece;
  Body body;
  void* work;
  std::atomic<std::int64_t> next{0};
  int active = 0;  // helpers at work, guarded by the pool's mutex
  std::condition_variable finished{};
};

// Helper threads that wait for jobs. Callers always work on their own job, so that none waits for a free thread.
class Pool {
 public:
  using Job = Control::Job;

  // Invite helpers to the job; fewer may come.
  void invite(Job& job, int count) noexcept {
    std::lock_guard lock(mutex_);
    try {
      for (int i = 0; i < count; ++i) queue_.push_back(&job);
      while (idle_ < static_cast<int>(queue_.size()) && threads_ < MAX_THREADS) {
        std::thread([this] { serve(); }).detach();  // it inherits the floating-point environment
        ++threads_, ++idle_;
      }
    } catch (const std::exception&) {  // no memory or no more threads: the caller works with those it has
    }
    wake_.notify_all();
  }

  // Withdraw open invitations; wait for helpers, at most until the next poll. Returns true if all have left.
  bool leave(Job& job) {
    std::unique_lock lock(mutex_);
    std::erase(queue_, &job);
    return job.finished.wait_for(lock, POLL, [&] { return job.active == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !queue_.empty(); });
      Job& job = *queue_.front();
      queue_.pop_front();
      --idle_;
      ++job.active;
      lock.unlock();
      job.control.drain(job);
      lock.lock();
      ++idle_;
      if (--job.active == 0) job.finished.notify_all();  // under the lock: the job ends with its caller
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> queue_;
  int idle_ = 0, threads_ = 0;
};

namespace {

// Threads do not survive a fork, so a child starts with a new pool. Pools are never freed: helpers outlive main().
Pool* pool = new Pool;

#ifndef _WIN32
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
#endif

}  // namespace

Control::Control(int threads, Poll poll, void* context)
    : threads_(std::max(threads, 1)),
      poll_(poll),
      context_(context),
      caller_(std::this_thread::get_id()),
      next_poll_(std::chrono::steady_clock::now() + POLL) {
  std::fegetenv(&floats_);
  std::fesetenv(FE_DFL_ENV);
}

Control::~Control() { std::fesetenv(&floats_); }

void Control::run(std::int64_t tasks, std::int64_t piece, Body body, void* work) {
  piece = std::max<std::int64_t>(piece, 1);
  if (counts_tasks_) total_ += tasks;
  Job job{*this, tasks, piece, body, work};
  const std::int64_t pieces = (tasks + piece - 1) / piece;
  const int helpers = static_cast<int>(std::min<std::int64_t>(threads_, pieces)) - 1;
  if (helpers > 0) pool->invite(job, helpers);
  drain(job);
  if (helpers > 0)
    while (!pool->leave(job)) poll_now();
  rethrow();
}

void Control::drain(Job& job) noexcept {
  try {
    while (!stopped()) {
      const std::int64_t first = job.next.fetch_add(job.piece, std::memory_order_relaxed);
      if (first >= job.tasks) break;
      const std::int64_t last = std::min(first + job.piece, job.tasks);
      job.body(job.work, first, last);
      if (counts_tasks_) advance(last - first);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

std::int64_t Control::piece(std::int64_t tasks) const noexcept {
  return threads_ == 1 ? tasks : (tasks + 8 * threads_ - 1) / (8 * threads_);
}

bool Control::stopped() noexcept {
  if (stop_.load(std::memory_order_relaxed)) return true;
  if (std::this_thread::get_id() != caller_ || ++calls_ % CALLS_PER_CLOCK) return false;
  if (std::chrono::steady_clock::now() >= next_poll_) poll_now();
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

void Control::expect(std::int64_t work) noexcept {
  total_ = work;
  counts_tasks_ = false;
}

void Control::advance(std::int64_t work) noexcept { done_.fetch_add(work, std::memory_order_relaxed); }

}  // namespace qubolearn
