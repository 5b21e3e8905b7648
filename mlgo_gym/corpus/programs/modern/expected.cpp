// A parser of settings that returns errors as values, with monadic steps and concepts.
#include <charconv>
#include <concepts>
#include <cstdint>
#include <expected>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace settings {

enum class Problem { empty, no_number, out_of_range, unknown_key, no_value };

template <class T> using Result = std::expected<T, Problem>;

static std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <std::integral Number> static Result<Number> number(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) return std::unexpected(Problem::out_of_range);
    if (error != std::errc{} || end != text.data() + text.size()) return std::unexpected(Problem::no_number);
    return value;
}

template <std::integral Number> static auto within(Number low, Number high) {
    return [=](Number value) -> Result<Number> {
        if (value < low || value > high) return std::unexpected(Problem::out_of_range);
        return value;
    };
}

struct Settings {
    std::uint16_t port = 80;
    int timeout = 30;
    std::int64_t limit = std::numeric_limits<std::int64_t>::max();
    std::string name;
};

static Result<std::pair<std::string_view, std::string_view>> split(std::string_view line) {
    const auto place = line.find('=');
    if (place == line.npos) return std::unexpected(Problem::no_value);
    return std::pair{trimmed(line.substr(0, place)), trimmed(line.substr(place + 1))};
}

static Result<std::string_view> filled(std::string_view text) {
    if (text.empty()) return std::unexpected(Problem::empty);
    return text;
}

template <class T> static auto store(T &place) {
    return [&place](auto value) { place = static_cast<T>(value); };
}

static Result<void> assign(Settings &settings, std::string_view key, std::string_view value) {
    if (key == "port") {
        return filled(value).and_then(number<std::uint16_t>).and_then(within<std::uint16_t>(1, 49151)).transform(
            store(settings.port));
    }
    if (key == "timeout") return filled(value).and_then(number<int>).and_then(within(0, 600)).transform(store(settings.timeout));
    if (key == "limit") return filled(value).and_then(number<std::int64_t>).transform(store(settings.limit));
    if (key == "name") return filled(value).transform([&](auto text) { settings.name = text; });
    return std::unexpected(Problem::unknown_key);
}

Result<Settings> parse(std::string_view text) {
    Settings settings;
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto line = trimmed(text.substr(0, end));
        text = end == text.npos ? std::string_view{} : text.substr(end + 1);
        if (line.empty() || line.front() == '#') continue;
        const auto assigned =
            split(line).and_then([&](const auto &pair) { return assign(settings, pair.first, pair.second); });
        if (!assigned) return std::unexpected(assigned.error());
    }
    return settings;
}

std::string text(Problem problem) {
    switch (problem) {
    case Problem::empty: return "the value is empty";
    case Problem::no_number: return "the value is no number";
    case Problem::out_of_range: return "the value is out of range";
    case Problem::unknown_key: return "the key is unknown";
    default: return "the line has no value";
    }
}

int port(std::string_view text) {
    const auto settings = parse(text);
    return settings ? settings->port : -static_cast<int>(settings.error());
}

} // namespace settings
