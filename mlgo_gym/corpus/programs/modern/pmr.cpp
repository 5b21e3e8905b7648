// Polymorphic allocators: a document in a monotonic buffer, an index in a pool, and a resource that counts.
#include <array>
#include <cstddef>
#include <map>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace documents {

class Counting : public std::pmr::memory_resource {
    std::pmr::memory_resource *upstream_;

public:
    std::size_t bytes = 0, calls = 0;
    explicit Counting(std::pmr::memory_resource *upstream = std::pmr::get_default_resource()) : upstream_(upstream) {}

private:
    void *do_allocate(std::size_t size, std::size_t alignment) override {
        bytes += size;
        ++calls;
        return upstream_->allocate(size, alignment);
    }
    void do_deallocate(void *place, std::size_t size, std::size_t alignment) override {
        bytes -= size;
        upstream_->deallocate(place, size, alignment);
    }
    bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

struct Document {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    std::pmr::vector<std::pmr::string> lines;
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> index;

    explicit Document(allocator_type allocator) : lines(allocator), index(allocator) {}

    void add(std::string_view line) {
        lines.emplace_back(line);
        for (std::size_t from = 0, to; from < line.size(); from = to + 1) {
            to = std::min(line.find(' ', from), line.size());
            if (to > from) insert(line.substr(from, to - from));
        }
    }

    int occurrences(std::string_view word) const {
        const auto place = index.find(std::pmr::string(word, index.get_allocator()));
        return place == index.end() ? 0 : static_cast<int>(place->second.size());
    }

private:
    void insert(std::string_view word) {
        std::pmr::string key(word, index.get_allocator());
        index[std::move(key)].push_back(static_cast<int>(lines.size()) - 1);
    }
};

static Document read(std::string_view text, Document::allocator_type allocator) {
    Document document(allocator);
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        document.add(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return document;
}

int count(std::string_view text, std::string_view word) {
    std::array<std::byte, 4096> buffer;
    std::pmr::monotonic_buffer_resource resource(buffer.data(), buffer.size());
    return read(text, &resource).occurrences(word);
}

std::size_t cost(std::string_view text) {
    Counting counting;
    const auto document = read(text, &counting);
    return counting.calls ? counting.bytes / counting.calls : document.lines.size();
}

std::size_t pooled(std::string_view text) {
    Counting counting;
    std::pmr::unsynchronized_pool_resource pool(&counting);
    for (int i = 0; i < 4; ++i) read(text, &pool);
    return counting.bytes;
}

} // namespace documents
