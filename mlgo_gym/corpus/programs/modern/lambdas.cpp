// Closures in containers: signals, a chain of filters, memoisation and currying.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lambdas {

template <class... Arguments> class Signal {
    std::vector<std::pair<int, std::function<void(Arguments...)>>> slots_;
    int next_ = 0;

public:
    template <class Slot> int connect(Slot &&slot) {
        slots_.emplace_back(next_, std::forward<Slot>(slot));
        return next_++;
    }
    void disconnect(int identifier) {
        std::erase_if(slots_, [identifier](const auto &slot) { return slot.first == identifier; });
    }
    void emit(Arguments... arguments) const {
        for (const auto &[identifier, slot] : slots_) slot(arguments...);
    }
};

struct Button {
    Signal<int, int> clicked;
    Signal<> released;
};

struct Counter {
    int clicks = 0, sum = 0;
    std::string log;
};

std::vector<int> wire(Button &button, Counter &counter) {
    return {
        button.clicked.connect([&counter](int, int) { ++counter.clicks; }),
        button.clicked.connect([&counter](int x, int y) { counter.sum += x * y; }),
        button.clicked.connect([&counter, text = std::string("at ")](int x, int) mutable {
            text += std::to_string(x);
            counter.log += text;
        }),
        button.released.connect([&] { counter.log.clear(); }),
    };
}

void unwire(Button &button, const std::vector<int> &identifiers) {
    for (int identifier : identifiers) button.clicked.disconnect(identifier);
}

using Filter = std::function<int(int)>;

Filter compose(std::vector<Filter> filters) {
    return [filters = std::move(filters)](int value) {
        for (const auto &filter : filters) value = filter(value);
        return value;
    };
}

Filter clamp(int low, int high) {
    return [=](int value) { return std::clamp(value, low, high); };
}

static constexpr auto curry = [](auto function, auto... bound) {
    return [=](auto... rest) { return function(bound..., rest...); };
};

int apply(int value) {
    const auto scale = curry([](int a, int b, int c) { return a * c + b; }, 3, 4);
    return compose({scale, clamp(0, 100), [offset = value / 2](int x) { return x - offset; }})(value);
}

Filter memoised(Filter function) {
    auto known = std::make_shared<std::vector<std::pair<int, int>>>();
    return [known, function = std::move(function)](int argument) {
        const auto place = std::ranges::lower_bound(*known, argument, {}, &std::pair<int, int>::first);
        if (place != known->end() && place->first == argument) return place->second;
        const int result = function(argument);
        known->emplace(place, argument, result);
        return result;
    };
}

int factorial(int n) {
    return [](this auto self, int k) -> int { return k < 2 ? 1 : k * self(k - 1); }(n);
}

} // namespace lambdas
