// Owns an open descriptor, from the system call that gives it to the object that takes it over. A
// failure in between, of an allocation too, closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace tidegate {

class Descriptor {
  public:
    // -1: none.
    explicit Descriptor(int number = -1) noexcept : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        const Descriptor former(std::exchange(number_, other.release()));
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }

    explicit operator bool() const { return number_ >= 0; }
    int get() const { return number_; }
    // The caller owns it from now on.
    int release() noexcept { return std::exchange(number_, -1); }

  private:
    int number_;
};

}  // namespace tidegate
