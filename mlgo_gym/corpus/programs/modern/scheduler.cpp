// Detached coroutines in a round-robin scheduler, with a channel between producers and a consumer.
#include <array>
#include <coroutine>
#include <cstdlib>
#include <optional>

namespace scheduler {

class Queue {
    std::array<std::coroutine_handle<>, 32> ready_{};
    unsigned head_ = 0, tail_ = 0;

public:
    void push(std::coroutine_handle<> handle) {
        if (tail_ - head_ == ready_.size()) std::abort();
        ready_[tail_++ % ready_.size()] = handle;
    }
    void run() {
        while (head_ != tail_) ready_[head_++ % ready_.size()].resume();
    }
    auto yield() {
        struct Awaiter {
            Queue &queue;
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) { queue.push(handle); }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this};
    }
};

struct Detached {
    struct promise_type {
        Detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::abort(); }
    };
};

template <class T> class Channel {
    Queue &queue_;
    std::optional<T> slot_;
    std::coroutine_handle<> reader_;
    bool closed_ = false;

    void wake() {
        if (reader_) queue_.push(std::exchange(reader_, nullptr));
    }

public:
    explicit Channel(Queue &queue) : queue_(queue) {}
    bool full() const { return slot_.has_value(); }
    void put(T value) {
        slot_ = value;
        wake();
    }
    void close() {
        closed_ = true;
        wake();
    }
    bool await_ready() const noexcept { return full() || closed_; }
    void await_suspend(std::coroutine_handle<> handle) noexcept { reader_ = handle; }
    std::optional<T> await_resume() { return std::exchange(slot_, std::nullopt); }
};

static Detached produce(Queue &queue, Channel<int> &channel, int first, int last, int &running) {
    for (int value = first; value < last; ++value) {
        while (channel.full()) co_await queue.yield();
        channel.put(value);
        co_await queue.yield();
    }
    if (--running == 0) channel.close();
}

static Detached consume(Channel<int> &channel, int &total) {
    while (auto value = co_await channel) total += *value;
}

static Detached tick(Queue &queue, int times, int &ticks) {
    for (int i = 0; i < times; ++i) {
        ++ticks;
        co_await queue.yield();
    }
}

int run_two(int first, int middle, int last) {
    Queue queue;
    Channel<int> channel(queue);
    int total = 0, running = 2, ticks = 0;
    consume(channel, total);
    produce(queue, channel, first, middle, running);
    produce(queue, channel, middle, last, running);
    tick(queue, 10, ticks);
    tick(queue, 20, ticks);
    queue.run();
    return total + ticks;
}

} // namespace scheduler
