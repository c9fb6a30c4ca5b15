// SPDX-License-Identifier: MIT OR Apache-2.0
// Containers of the endpoint: an intrusive list, a pool whose objects never move, and a table that
// turns numbers from the wire into objects safely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace rlx {

// T derives from ListNode<T> and is in at most one list at a time.
template <class T>
struct ListNode {
  T* prev = nullptr;
  T* next = nullptr;
};

template <class T>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  void push_back(T* node) {
    node->prev = tail_;
    node->next = nullptr;
    (tail_ ? tail_->next : head_) = node;
    tail_ = node;
  }
  void erase(T* node) {
    (node->prev ? node->prev->next : head_) = node->next;
    (node->next ? node->next->prev : tail_) = node->prev;
    node->prev = node->next = nullptr;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

// Recycles objects of T, which has a member `bool live` of its own.
template <class T>
class Pool {
 public:
  T* take() {
    if (free_.empty()) return grow();
    T* const object = free_.back();
    free_.pop_back();
    object->live = true;
    return object;
  }
  void give(T* object) {
    object->live = false;
    free_.push_back(object);
  }
  template <class Fn>
  void for_each_live(Fn&& fn) {
    for (T& object : all_)
      if (object.live) fn(object);
  }

 private:
  T* grow() {
    T* const object = &all_.emplace_back();
    object->live = true;
    return object;
  }
  std::deque<T> all_;
  std::vector<T*> free_;
};

// Numbers objects for the wire. A number that was never given, or no longer holds, finds nothing.
template <class T>
class IdTable {
 public:
  std::uint64_t add(T* object) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.push_back({nullptr, 1});
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    entries_[index].object = object;
    ++n_;
    return std::uint64_t{entries_[index].generation} << 32 | index;
  }
  T* find(std::uint64_t id) const {
    const auto index = static_cast<std::uint32_t>(id);
    if (index >= entries_.size() || entries_[index].generation != id >> 32) return nullptr;
    return entries_[index].object;
  }
  void remove(std::uint64_t id) {
    const auto index = static_cast<std::uint32_t>(id);
    entries_[index].object = nullptr;
    // 31 bits: the top bit of an id tells whose number it is.
    entries_[index].generation = (entries_[index].generation + 1) & 0x7fffffff;
    free_.push_back(index);
    --n_;
  }
  std::size_t size() const { return n_; }

 private:
  struct Entry {
    T* object;
    std::uint32_t generation;
  };
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::size_t n_ = 0;
};

}  // namespace rlx
