/* Runs one of three Lua scripts: numbers, text, or tables. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

static const char *const scripts[] = {
    /* A planet model: numbers and fields. */
    "local bodies = {}\n"
    "for i = 1, 6 do bodies[i] = {x = i * 1.5, y = -i, vx = 0.01 * i, vy = 0.3 / i, m = 1 / i} end\n"
    "for step = 1, 9000 do\n"
    "  for i, a in ipairs(bodies) do for j = i + 1, #bodies do\n"
    "    local b = bodies[j]\n"
    "    local dx, dy = a.x - b.x, a.y - b.y\n"
    "    local f = 0.001 / ((dx * dx + dy * dy) ^ 1.5 + 0.1)\n"
    "    a.vx, a.vy, b.vx, b.vy = a.vx - dx * b.m * f, a.vy - dy * b.m * f, b.vx + dx * a.m * f, b.vy + dy * a.m * f\n"
    "  end end\n"
    "  for _, a in ipairs(bodies) do a.x, a.y = a.x + 0.01 * a.vx, a.y + 0.01 * a.vy end\n"
    "end\n"
    "for _, a in ipairs(bodies) do io.write(a.x * 1e4 // 1 | 0, ' ', a.y * 1e4 // 1 | 0, '\\n') end\n",
    /* Word counts: patterns, substitution, formatted text. */
    "local state, words = 7, {}\n"
    "for i = 1, 9000 do state = (state * 1103515245 + 12345) % 2147483648\n"
    "  words[i] = string.format('w%x', state // 65536 % 700) end\n"
    "local text, counts = table.concat(words, ' '), {}\n"
    "for word in text:gmatch('%w+') do counts[word] = (counts[word] or 0) + 1 end\n"
    "for round = 1, 6 do text = text:gsub('w(%x)(%x*)', function(a, b) return 'w' .. b .. a end) end\n"
    "local keys = {}\n"
    "for word in pairs(counts) do keys[#keys + 1] = word end\n"
    "table.sort(keys, function(a, b) return counts[a] > counts[b] or counts[a] == counts[b] and a < b end)\n"
    "for i = 1, 5 do io.write(keys[i], ' ', counts[keys[i]], '\\n') end\n"
    "io.write(#text, ' ', text:sub(1, 40):upper():reverse(), '\\n')\n",
    /* Objects, closures, coroutines and garbage. */
    "local Queue = {}\n"
    "Queue.__index = Queue\n"
    "function Queue.new() return setmetatable({first = 1, last = 0, items = {}}, Queue) end\n"
    "function Queue:push(v) self.last = self.last + 1; self.items[self.last] = v end\n"
    "function Queue:pop() local v = self.items[self.first]\n"
    "  self.items[self.first] = nil; self.first = self.first + 1; return v end\n"
    "local function primes(n) return coroutine.wrap(function()\n"
    "  local sieve = {}\n"
    "  for i = 2, n do if not sieve[i] then coroutine.yield(i) for k = i * i, n, i do sieve[k] = true end end end\n"
    "end) end\n"
    "local q, sum = Queue.new(), 0\n"
    "for p in primes(120000) do q:push({p, function() return p % 1000 end}) end\n"
    "while q.first <= q.last do local e = q:pop(); sum = sum + e[1] * e[2]() end\n"
    "local t = {}\n"
    "for i = 1, 40000 do t[i] = (i * 7919) % 40009 end\n"
    "table.sort(t)\n"
    "io.write(sum, ' ', t[1], ' ', t[20000], '\\n')\n",
};

int main(int count, char **words) {
  int script = count > 1 ? words[1][0] - '0' : 0;
  if (script < 0 || script > 2)
    return 2;
  lua_State *state = luaL_newstate();
  luaL_openlibs(state);
  if (luaL_dostring(state, scripts[script])) {
    fprintf(stderr, "%s\n", lua_tostring(state, -1));
    return 1;
  }
  lua_close(state);
  return 0;
}
