// Walks of a binary tree by recursive coroutines, with an iterator for range-based loops.
#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

namespace walk {

template <class T> class [[nodiscard]] Sequence {
public:
    struct promise_type {
        const T *current = nullptr;
        std::exception_ptr error;
        Sequence get_return_object() { return Sequence{Handle::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(const T &value) noexcept {
            current = std::addressof(value);
            return {};
        }
        void return_void() noexcept {}
        void unhandled_exception() { error = std::current_exception(); }
    };
    using Handle = std::coroutine_handle<promise_type>;

    class iterator {
        Handle handle_;

    public:
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        explicit iterator(Handle handle) : handle_(handle) {}
        const T &operator*() const { return *handle_.promise().current; }
        iterator &operator++() {
            handle_.resume();
            if (handle_.done() && handle_.promise().error) std::rethrow_exception(handle_.promise().error);
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(std::default_sentinel_t) const { return handle_.done(); }
    };

    Sequence(Sequence &&other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    ~Sequence() {
        if (handle_) handle_.destroy();
    }
    iterator begin() { return ++iterator{handle_}; }
    std::default_sentinel_t end() const { return {}; }

private:
    explicit Sequence(Handle handle) : handle_(handle) {}
    Handle handle_;
};

struct Node {
    int key;
    std::unique_ptr<Node> left, right;
};

Sequence<int> in_order(const Node *node) {
    if (!node) co_return;
    for (int key : in_order(node->left.get())) co_yield key;
    co_yield node->key;
    for (int key : in_order(node->right.get())) co_yield key;
}

static Sequence<int> leaves(const Node *node) {
    if (!node) co_return;
    if (!node->left && !node->right) co_yield node->key;
    for (int key : leaves(node->left.get())) co_yield key;
    for (int key : leaves(node->right.get())) co_yield key;
}

void insert(std::unique_ptr<Node> &root, int key) {
    auto *place = &root;
    while (*place) place = key < (*place)->key ? &(*place)->left : &(*place)->right;
    *place = std::make_unique<Node>(key, nullptr, nullptr);
}

int sum(const Node *root) {
    int total = 0;
    for (int key : in_order(root)) total += key;
    return total;
}

bool sorted(const Node *root) {
    const int *last = nullptr;
    int before = 0;
    for (const int &key : in_order(root)) {
        if (last && key < before) return false;
        before = key;
        last = &before;
    }
    return true;
}

bool same_leaves(const Node *one, const Node *other) {
    auto first = leaves(one), second = leaves(other);
    auto a = first.begin(), b = second.begin();
    for (; a != first.end() && b != second.end(); ++a, ++b)
        if (*a != *b) return false;
    return a == first.end() && b == second.end();
}

} // namespace walk
