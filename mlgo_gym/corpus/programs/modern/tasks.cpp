// Lazy tasks that await each other by symmetric transfer: reads, parses and retries of a small protocol.
#include <coroutine>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>
#include <variant>

namespace tasks {

template <class T> class [[nodiscard]] Task {
public:
    struct promise_type {
        std::variant<std::monostate, T, std::exception_ptr> result;
        std::coroutine_handle<> continuation = std::noop_coroutine();

        struct Final {
            bool await_ready() noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> handle) noexcept {
                return handle.promise().continuation;
            }
            void await_resume() noexcept {}
        };
        Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        Final final_suspend() noexcept { return {}; }
        template <class U> void return_value(U &&value) { result.template emplace<1>(std::forward<U>(value)); }
        void unhandled_exception() { result.template emplace<2>(std::current_exception()); }
    };

    Task(Task &&other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    ~Task() {
        if (handle_) handle_.destroy();
    }
    bool await_ready() const noexcept { return handle_.done(); }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        handle_.promise().continuation = awaiting;
        return handle_;
    }
    T await_resume() {
        auto &result = handle_.promise().result;
        if (result.index() == 2) std::rethrow_exception(std::get<2>(result));
        return std::move(std::get<1>(result));
    }
    T run() {
        handle_.resume();
        return await_resume();
    }

private:
    explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

struct Source {
    const std::uint8_t *data;
    unsigned size, position = 0;
};

struct Message {
    std::uint16_t kind = 0;
    std::uint32_t sum = 0;
};

static Task<std::uint8_t> read_byte(Source &source) {
    if (source.position == source.size) throw std::out_of_range("end of the source");
    co_return source.data[source.position++];
}

static Task<std::uint16_t> read_short(Source &source) {
    const unsigned low = co_await read_byte(source);
    co_return static_cast<std::uint16_t>(low | unsigned{co_await read_byte(source)} << 8);
}

static Task<Message> read_message(Source &source) {
    Message message{.kind = co_await read_short(source)};
    for (auto left = co_await read_byte(source); left > 0; --left) message.sum += co_await read_short(source);
    co_return message;
}

static Task<unsigned> count_messages(Source &source, std::uint16_t kind) {
    unsigned count = 0;
    while (source.position < source.size) {
        const auto message = co_await read_message(source);
        count += message.kind == kind;
    }
    co_return count;
}

static Task<std::uint32_t> total(Source &source) {
    std::uint32_t sum = 0;
    try {
        while (true) sum += (co_await read_message(source)).sum;
    } catch (const std::out_of_range &) {
    }
    co_return sum;
}

unsigned messages(const std::uint8_t *data, unsigned size, std::uint16_t kind) {
    Source source{data, size};
    return count_messages(source, kind).run();
}

std::uint32_t checksum(const std::uint8_t *data, unsigned size) {
    Source source{data, size};
    return total(source).run();
}

} // namespace tasks
