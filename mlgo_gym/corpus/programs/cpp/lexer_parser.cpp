// Front end for a tiny C-like language: lexer, recursive-descent parser, three-address IR, folding and an evaluator.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace front {

inline int64_t wrap(uint64_t v) { return static_cast<int64_t>(v); }
inline uint64_t raw(int64_t v) { return static_cast<uint64_t>(v); }

class Slice {
    const char *p_ = "";
    size_t n_ = 0;

public:
    Slice() = default;
    Slice(const char *s) : p_(s), n_(strlen(s)) {}
    Slice(const char *b, const char *e) : p_(b), n_(static_cast<size_t>(e - b)) {}
    const char *begin() const { return p_; }
    const char *end() const { return p_ + n_; }
    bool operator==(const Slice &o) const { return n_ == o.n_ && memcmp(p_, o.p_, n_) == 0; }
};

// Growable array of trivially copyable values.
template <class T> class List {
    T *items_ = nullptr;
    int size_ = 0, cap_ = 0;

public:
    List() = default;
    List(const List &) = delete;
    List &operator=(const List &) = delete;
    ~List() { free(items_); }
    int push(const T &v) {
        if (size_ == cap_) {
            cap_ = cap_ ? cap_ * 2 : 16;
            items_ = static_cast<T *>(realloc(items_, static_cast<size_t>(cap_) * sizeof(T)));
            if (!items_) abort();
        }
        items_[size_] = v;
        return size_++;
    }
    int size() const { return size_; }
    void cut(int n) { size_ = n; }
    T &operator[](int i) { return items_[i]; }
    const T &operator[](int i) const { return items_[i]; }
};

enum class Tok : uint8_t {
    End, Bad, Number, Ident, KwLet, KwIf, KwElse, KwWhile, KwReturn,
    Plus, Minus, Star, Slash, Percent, Less, LessEq, EqEq, NotEq, AndAnd, OrOr, Not, Assign, LParen, RParen, LBrace, RBrace, Semi,
};

struct Token {
    Tok kind = Tok::End;
    Slice text;
    int64_t value = 0;
    int line = 1;
};

class Lexer {
    const char *cur_, *end_;
    int line_ = 1;

    bool done() const { return cur_ == end_; }
    char peek() const { return done() ? '\0' : *cur_; }
    char advance() {
        char c = *cur_++;
        if (c == '\n') ++line_;
        return c;
    }
    bool accept(char c) {
        if (peek() != c) return false;
        advance();
        return true;
    }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
    static bool is_word(char c) { return is_alpha(c) || is_digit(c); }
    static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

    template <class P> Slice take_while(const char *from, P pred) {
        while (!done() && pred(peek())) advance();
        return Slice(from, cur_);
    }
    void skip_blank() {
        for (take_while(cur_, is_space); peek() == '#'; take_while(cur_, is_space)) take_while(cur_, [](char c) { return c != '\n'; });
    }
    static Tok keyword(const Slice &s) {
        static const char *const words[] = {"let", "if", "else", "while", "return"};
        for (int i = 0; i < 5; ++i)
            if (s == words[i]) return static_cast<Tok>(static_cast<int>(Tok::KwLet) + i);
        return Tok::Ident;
    }
    static Tok single(char c) {
        static const char chars[] = "+-*/%(){};";
        static const Tok kinds[] = {Tok::Plus, Tok::Minus, Tok::Star, Tok::Slash, Tok::Percent, Tok::LParen, Tok::RParen, Tok::LBrace, Tok::RBrace, Tok::Semi};
        const char *hit = c ? strchr(chars, c) : nullptr;
        return hit ? kinds[hit - chars] : Tok::Bad;
    }
    Token make(Tok k, const char *from) const { return Token{k, Slice(from, cur_), 0, line_}; }
    Token either(char c, Tok yes, Tok no, const char *from) { return make(accept(c) ? yes : no, from); }

public:
    explicit Lexer(const Slice &src) : cur_(src.begin()), end_(src.end()) {}

    Token next() {
        skip_blank();
        const char *from = cur_;
        if (done()) return make(Tok::End, from);
        char c = advance();
        if (is_digit(c)) {
            take_while(from, is_digit);
            Token t = make(Tok::Number, from);
            for (char d : t.text) t.value = wrap(raw(t.value) * 10 + raw(d - '0'));
            return t;
        }
        if (is_alpha(c)) {
            Slice word = take_while(from, is_word);
            return make(keyword(word), from);
        }
        switch (c) {
        case '<': return either('=', Tok::LessEq, Tok::Less, from);
        case '=': return either('=', Tok::EqEq, Tok::Assign, from);
        case '!': return either('=', Tok::NotEq, Tok::Not, from);
        case '&': return either('&', Tok::AndAnd, Tok::Bad, from);
        case '|': return either('|', Tok::OrOr, Tok::Bad, from);
        default: return make(single(c), from);
        }
    }
};

enum class Op : uint8_t { Const, Load, Store, Add, Sub, Mul, Div, Rem, Lt, Le, Eq, Ne, Not, Jump, JumpZero, Label, Ret };

using Reg = int;

// One three-address instruction: result register = its own index.
struct Insn {
    Op op;
    Reg a = -1, b = -1;
    int64_t imm = 0;
    bool is_const() const { return op == Op::Const; }
};

static int64_t arith(Op op, int64_t a, int64_t b) {
    switch (op) {
    case Op::Add: return wrap(raw(a) + raw(b));
    case Op::Sub: return wrap(raw(a) - raw(b));
    case Op::Mul: return wrap(raw(a) * raw(b));
    case Op::Div: return b == 0 || b == -1 ? wrap(0 - raw(a)) : a / b;
    case Op::Rem: return b == 0 || b == -1 ? 0 : a % b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    default: return 0;
    }
}

class Builder {
    List<Insn> code_;
    int labels_ = 0;

    Reg emit(Op op, Reg a = -1, Reg b = -1, int64_t imm = 0) { return code_.push(Insn{op, a, b, imm}); }
    bool is_const(Reg r) const { return code_[r].is_const(); }
    bool is_value(Reg r, int64_t v) const { return is_const(r) && code_[r].imm == v; }

public:
    const List<Insn> &code() const { return code_; }
    Reg constant(int64_t v) { return emit(Op::Const, -1, -1, v); }
    Reg load(int slot) { return emit(Op::Load, -1, -1, slot); }
    void store(int slot, Reg v) { emit(Op::Store, v, -1, slot); }
    Reg binary(Op op, Reg a, Reg b) {
        if (is_const(a) && is_const(b)) return constant(arith(op, code_[a].imm, code_[b].imm));
        bool sum = op == Op::Add, product = op == Op::Mul;
        if (((sum || op == Op::Sub) && is_value(b, 0)) || (product && is_value(b, 1))) return a;
        if ((sum && is_value(a, 0)) || (product && is_value(a, 1))) return b;
        return emit(op, a, b);
    }
    Reg negate(Reg a) { return binary(Op::Sub, constant(0), a); }
    Reg logical_not(Reg a) { return is_const(a) ? constant(!code_[a].imm) : emit(Op::Not, a); }
    int new_label() { return labels_++; }
    int label_count() const { return labels_; }
    void place(int label) { emit(Op::Label, -1, -1, label); }
    void jump(int label) { emit(Op::Jump, -1, -1, label); }
    void jump_zero(Reg c, int label) { emit(Op::JumpZero, c, -1, label); }
    void ret(Reg r) { emit(Op::Ret, r); }
};

class Scopes {
    struct Var { Slice name; int slot; };
    List<Var> vars_;
    int slots_ = 0;

public:
    class Guard {
        Scopes &s_;
        int mark_;

    public:
        explicit Guard(Scopes &s) : s_(s), mark_(s.vars_.size()) {}
        ~Guard() { s_.vars_.cut(mark_); }
    };
    int declare(const Slice &n) { vars_.push(Var{n, slots_}); return slots_++; }
    int lookup(const Slice &n) const {
        for (int i = vars_.size() - 1; i >= 0; --i)
            if (vars_[i].name == n) return vars_[i].slot;
        return -1;
    }
    int slot_count() const { return slots_; }
};

class Parser {
    Lexer lex_;
    Token tok_;
    Builder &out_;
    Scopes &scopes_;
    int error_line_ = 0;
    int depth_ = 0;

    bool ok() const { return error_line_ == 0; }
    Reg fail() {
        if (ok()) error_line_ = tok_.line;
        tok_.kind = Tok::End;
        return out_.constant(0);
    }
    bool at(Tok k) const { return tok_.kind == k; }
    Token shift() {
        Token t = tok_;
        tok_ = lex_.next();
        return t;
    }
    bool accept(Tok k) {
        if (!at(k)) return false;
        shift();
        return true;
    }
    void expect(Tok k) {
        if (!accept(k)) fail();
    }

    struct Level { int prec; Op op; };
    static Level shifted(int prec, Op base, Tok k, Tok first) { return {prec, static_cast<Op>(static_cast<int>(base) + static_cast<int>(k) - static_cast<int>(first))}; }
    static Level level(Tok k) {
        if (k >= Tok::Star && k <= Tok::Percent) return shifted(4, Op::Mul, k, Tok::Star);
        if (k >= Tok::Plus && k <= Tok::Minus) return shifted(3, Op::Add, k, Tok::Plus);
        if (k >= Tok::Less && k <= Tok::LessEq) return shifted(2, Op::Lt, k, Tok::Less);
        if (k >= Tok::EqEq && k <= Tok::NotEq) return shifted(1, Op::Eq, k, Tok::EqEq);
        return {0, Op::Ret};
    }

    Reg primary() {
        if (at(Tok::Number)) return out_.constant(shift().value);
        if (at(Tok::Ident)) {
            int slot = scopes_.lookup(tok_.text);
            if (slot < 0) return fail();
            shift();
            return out_.load(slot);
        }
        return at(Tok::LParen) ? grouped() : fail();
    }
    Reg unary() {
        if (++depth_ > 200) return fail();
        Reg r = accept(Tok::Minus) ? out_.negate(unary()) : accept(Tok::Not) ? out_.logical_not(unary()) : primary();
        --depth_;
        return r;
    }
    Reg climb(int min_prec) {
        Reg left = unary();
        for (Level l = level(tok_.kind); l.prec >= min_prec && l.prec > 0; l = level(tok_.kind)) {
            shift();
            Reg right = climb(l.prec + 1);
            left = out_.binary(l.op, left, right);
        }
        return left;
    }
    // a && b and a || b go through a temporary slot and a branch.
    template <class Next> Reg short_circuit(Tok k, bool stop_on_zero, Next next) {
        Reg left = next();
        while (accept(k)) {
            int tmp = scopes_.declare(""), end = out_.new_label();
            Reg truth = out_.logical_not(out_.logical_not(left));
            out_.store(tmp, truth);
            out_.jump_zero(stop_on_zero ? truth : out_.logical_not(truth), end);
            out_.store(tmp, out_.logical_not(out_.logical_not(next())));
            out_.place(end);
            left = out_.load(tmp);
        }
        return left;
    }
    Reg conjunction() { return short_circuit(Tok::AndAnd, true, [this] { return climb(1); }); }
    Reg expression() { return short_circuit(Tok::OrOr, false, [this] { return conjunction(); }); }
    Reg grouped() {
        expect(Tok::LParen);
        Reg r = expression();
        expect(Tok::RParen);
        return r;
    }
    void block() {
        Scopes::Guard scope(scopes_);
        expect(Tok::LBrace);
        while (!at(Tok::RBrace) && !at(Tok::End)) statement();
        expect(Tok::RBrace);
    }
    void if_statement() {
        int other = out_.new_label(), end = out_.new_label();
        out_.jump_zero(grouped(), other);
        block();
        out_.jump(end);
        out_.place(other);
        if (accept(Tok::KwElse)) at(Tok::KwIf) ? statement() : block();
        out_.place(end);
    }
    void while_statement() {
        int top = out_.new_label(), end = out_.new_label();
        out_.place(top);
        out_.jump_zero(grouped(), end);
        block();
        out_.jump(top);
        out_.place(end);
    }
    void assign(int slot) {
        expect(Tok::Assign);
        if (slot < 0) fail();
        else out_.store(slot, expression());
        expect(Tok::Semi);
    }
    void return_statement() { out_.ret(expression()); expect(Tok::Semi); }
    void let_statement() {
        Slice name = tok_.text;
        expect(Tok::Ident);
        assign(scopes_.declare(name));
    }
    void statement() {
        if (++depth_ > 200) fail();
        if (accept(Tok::KwIf)) if_statement();
        else if (accept(Tok::KwWhile)) while_statement();
        else if (accept(Tok::KwReturn)) return_statement();
        else if (accept(Tok::KwLet)) let_statement();
        else if (at(Tok::Ident)) assign(scopes_.lookup(shift().text));
        else fail();
        --depth_;
    }

public:
    Parser(const Slice &src, Builder &out, Scopes &scopes) : lex_(src), out_(out), scopes_(scopes) { tok_ = lex_.next(); }
    int run() {
        while (!at(Tok::End)) statement();
        out_.ret(out_.constant(0));
        return error_line_;
    }
};

} // namespace front

using namespace front;

// Returns the line of the first error, or 0.
int compile_source(const char *src, Builder &out, Scopes &scopes) { return Parser(src, out, scopes).run(); }

bool execute(const Builder &b, int slots, int fuel, int64_t &result) {
    const List<Insn> &code = b.code();
    List<int64_t> regs, vars;
    List<int> labels;
    for (int i = 0; i < code.size(); ++i) regs.push(0);
    for (int i = 0; i < slots; ++i) vars.push(0);
    for (int i = 0; i < b.label_count(); ++i) labels.push(0);
    for (int i = 0; i < code.size(); ++i)
        if (code[i].op == Op::Label) labels[static_cast<int>(code[i].imm)] = i;
    for (int pc = 0; fuel > 0; ++pc, --fuel) {
        const Insn &in = code[pc];
        int at = static_cast<int>(in.imm);
        switch (in.op) {
        case Op::Const: regs[pc] = in.imm; break;
        case Op::Load: regs[pc] = vars[at]; break;
        case Op::Store: vars[at] = regs[in.a]; break;
        case Op::Not: regs[pc] = !regs[in.a]; break;
        case Op::Jump: pc = labels[at]; break;
        case Op::JumpZero: if (!regs[in.a]) pc = labels[at]; break;
        case Op::Ret: result = regs[in.a]; return true;
        case Op::Label: break;
        default: regs[pc] = arith(in.op, regs[in.a], regs[in.b]); break;
        }
    }
    return false;
}

int count_ops(const Builder &b, Op op) {
    int n = 0;
    for (int i = 0; i < b.code().size(); ++i) n += b.code()[i].op == op;
    return n;
}

static bool gives(const char *src, int64_t want) {
    Builder b;
    Scopes s;
    int64_t got = 0;
    return compile_source(src, b, s) == 0 && execute(b, s.slot_count(), 100000, got) && got == want;
}

extern "C" int lexer_parser_selftest() {
    if (!gives("return 2 + 3 * 4 - 10 / 3 % 2;", 13)) return 1;
    if (!gives("let a = 10; let b = 0; while (0 < a) { b = b + a * a; a = a - 1; } return b;", 385)) return 2;
    if (!gives("let x = 7; if (x == 8) { return 1; } else if (x != 7) { return 2; } else { let x = 3; return -x; }", -3)) return 3;
    if (!gives("let n = 5; return (n < 3 || n == 5) && !(n <= 4);", 1)) return 4;
    if (!gives("let n = 27; let c = 0; # collatz\nwhile (n != 1) { if (n % 2 == 0) { n = n / 2; } else { n = 3 * n + 1; } c = c + 1; } return c;", 111)) return 5;
    if (gives("while (1) { }", 0)) return 6;
    const char *broken[] = {"let b = c;", "return (1;", "let q = 1 & 2;", "{", "1 = 2;"};
    for (const char *src : broken) {
        Builder junk;
        Scopes none;
        if (compile_source(src, junk, none) != 1) return 7;
    }
    Builder b;
    Scopes s;
    if (compile_source("let a = 3; return a * 1 + (4 - 4) + 6 * 7;", b, s) != 0) return 8;
    if (count_ops(b, Op::Mul) != 0 || count_ops(b, Op::Add) != 1 || count_ops(b, Op::Load) != 1) return 9;
    return 0;
}
