// Reports about samples by views: filters, transforms, windows and projections.
#include <algorithm>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace samples {

namespace views = std::views;

struct Sample {
    int sensor;
    double value;
    bool valid;
};

static auto of_sensor(std::span<const Sample> samples, int sensor) {
    return samples | views::filter([sensor](const Sample &s) { return s.valid && s.sensor == sensor; }) |
           views::transform(&Sample::value);
}

double mean(std::span<const Sample> samples, int sensor) {
    double sum = 0;
    int count = 0;
    for (double value : of_sensor(samples, sensor)) {
        sum += value;
        ++count;
    }
    return count ? sum / count : 0;
}

std::vector<double> first_values(std::span<const Sample> samples, int sensor, int count) {
    std::vector<double> values;
    std::ranges::copy(of_sensor(samples, sensor) | views::take(count), std::back_inserter(values));
    return values;
}

std::vector<int> sensors(std::span<const Sample> samples) {
    auto all = samples | views::transform(&Sample::sensor);
    std::vector<int> unique(all.begin(), all.end());
    std::ranges::sort(unique);
    const auto rest = std::ranges::unique(unique);
    unique.erase(rest.begin(), rest.end());
    return unique;
}

int longest_rise(std::span<const Sample> samples) {
    int longest = 0, length = 0;
    for (auto [before, after] : views::zip(samples, samples | views::drop(1))) {
        length = after.value > before.value ? length + 1 : 0;
        longest = std::max(longest, length);
    }
    return longest;
}

const Sample *peak(std::span<const Sample> samples) {
    const auto place = std::ranges::max_element(samples, {}, &Sample::value);
    return place == samples.end() ? nullptr : &*place;
}

int words_of_length(std::string_view text, std::size_t length) {
    auto words = text | views::split(' ') | views::transform([](auto &&word) { return std::ranges::distance(word); });
    return static_cast<int>(
        std::ranges::count_if(words, [length](auto size) { return static_cast<std::size_t>(size) == length; }));
}

std::string initials(std::string_view text) {
    std::string letters;
    for (auto word : text | views::split(' '))
        if (!word.empty()) letters.push_back(*word.begin());
    return letters;
}

long checksum(int last) {
    auto odd_squares = views::iota(1, last) | views::filter([](int n) { return n % 2; }) |
                       views::transform([](long n) { return n * n; }) | views::common;
    return std::accumulate(odd_squares.begin(), odd_squares.end(), 0L);
}

} // namespace samples
