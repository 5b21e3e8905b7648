// A minimal generator, and callers that sum, search and print its numbers.
#include <coroutine>
#include <cstdio>

template <class T> struct Generator {
    struct promise_type {
        T value{};
        Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(T next) noexcept {
            value = next;
            return {};
        }
        void return_void() noexcept {}
        void unhandled_exception() noexcept {}
    };

    std::coroutine_handle<promise_type> handle;
    explicit Generator(std::coroutine_handle<promise_type> h) : handle(h) {}
    Generator(Generator &&other) noexcept : handle(other.handle) { other.handle = nullptr; }
    Generator(const Generator &) = delete;
    ~Generator() {
        if (handle) handle.destroy();
    }
    bool next() {
        handle.resume();
        return !handle.done();
    }
    T get() const { return handle.promise().value; }
};

static Generator<int> iota(int first, int last) {
    for (int value = first; value < last; ++value) co_yield value;
}

static Generator<unsigned> fibonacci(unsigned limit) {
    unsigned a = 0, b = 1;
    while (a < limit) {
        co_yield a;
        unsigned sum = a + b;
        a = b;
        b = sum;
    }
}

static Generator<int> evens(int first, int last) {
    auto numbers = iota(first, last);
    while (numbers.next())
        if (numbers.get() % 2 == 0) co_yield numbers.get();
}

static int sum(Generator<int> numbers) {
    int total = 0;
    while (numbers.next()) total += numbers.get();
    return total;
}

int sum_to_ten() { return sum(iota(0, 10)); }
int sum_to(int last) { return sum(iota(0, last)); }
int sum_of_evens(int first, int last) { return sum(evens(first, last)); }

bool is_fibonacci(unsigned number) {
    auto numbers = fibonacci(number + 1);
    unsigned last = 1;
    while (numbers.next()) last = numbers.get();
    return last == number;
}

void print_fibonacci(unsigned limit) {
    for (auto numbers = fibonacci(limit); numbers.next();) std::printf("%u\n", numbers.get());
}
