// Working memory of a kernel: aligned for vectors, with room for whole vectors of 64 bytes, freed at the end of the scope.
#pragma once
#include <cstddef>
#include <limits>
#include <new>

namespace qubolearn::VARIANT {

template <class T>
class Scratch {
 public:
  explicit Scratch(std::size_t size) : size_(size) {
    if (size > std::numeric_limits<std::size_t>::max() / 4 / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = (size * sizeof(T) + VECTOR - 1) / VECTOR * VECTOR;
    data_ = static_cast<T*>(::operator new[](bytes, std::align_val_t(VECTOR)));
  }
  Scratch(std::size_t size, T value) : Scratch(size) {
    for (std::size_t i = 0; i < size; ++i) data_[i] = value;
  }
  ~Scratch() { ::operator delete[](data_, std::align_val_t(VECTOR)); }
  Scratch(Scratch&& other) noexcept : size_(other.size_), data_(other.data_) {
    other.size_ = 0;
    other.data_ = nullptr;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  static constexpr std::size_t VECTOR = 64;
  std::size_t size_;
  T* data_;
};

}  // namespace qubolearn::VARIANT
