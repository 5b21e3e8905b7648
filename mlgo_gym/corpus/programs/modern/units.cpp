// Quantities with units as types, conversions at compile time, and their text by std::format.
#include <array>
#include <compare>
#include <cstdint>
#include <format>
#include <ratio>
#include <string>
#include <string_view>

namespace units {

template <int Length, int Time, class Scale = std::ratio<1>> struct Quantity {
    std::int64_t count = 0;

    constexpr Quantity() = default;
    constexpr explicit Quantity(std::int64_t value) : count(value) {}
    template <class Other> constexpr Quantity(Quantity<Length, Time, Other> other) {
        using Factor = std::ratio_divide<Other, Scale>;
        count = other.count * Factor::num / Factor::den;
    }
    constexpr auto operator<=>(const Quantity &) const = default;
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.count + b.count}; }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.count - b.count}; }
    friend constexpr Quantity operator*(Quantity a, std::int64_t factor) { return Quantity{a.count * factor}; }
};

using Meter = Quantity<1, 0>;
using Kilometer = Quantity<1, 0, std::kilo>;
using Millimeter = Quantity<1, 0, std::milli>;
using Second = Quantity<0, 1>;
using Hour = Quantity<0, 1, std::ratio<3600>>;

constexpr Kilometer operator""_km(unsigned long long value) { return Kilometer{static_cast<std::int64_t>(value)}; }
constexpr Hour operator""_h(unsigned long long value) { return Hour{static_cast<std::int64_t>(value)}; }

struct Leg {
    std::string_view name;
    Meter length;
    Second time;
};

constexpr std::array journey{Leg{"train", 120_km, 2_h}, Leg{"bus", 15_km, Second{1500}}, Leg{"walk", Meter{850}, Second{700}}};
static_assert(Meter{120_km}.count == 120'000);

constexpr Meter length() {
    Meter sum;
    for (const auto &leg : journey) sum = sum + leg.length;
    return sum;
}

std::string text(Meter length) {
    if (length < Meter{1_km}) return std::format("{} m", length.count);
    return std::format("{}.{:03} km", Kilometer{length}.count, length.count % 1000);
}

std::string text(Second time) {
    const auto minutes = time.count / 60;
    return std::format("{:02}:{:02}:{:02}", minutes / 60, minutes % 60, time.count % 60);
}

std::string report() {
    std::string lines;
    for (const auto &[name, length, time] : journey)
        lines += std::format("{:<8}{:>12}{:>10}\n", name, text(length), text(time));
    return lines + std::format("{:<8}{:>12}\n", "total", text(length()));
}

Second at_speed(Meter length, std::int64_t meters_per_hour) {
    return Second{Hour{1}} * length.count - Second{meters_per_hour};
}

bool longer(Millimeter one, Kilometer other) { return one > Millimeter{other}; }

} // namespace units
