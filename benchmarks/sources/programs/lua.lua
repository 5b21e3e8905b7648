-- Numbers, text, tables, closures and coroutines.
local bodies = {}
for i = 1, 6 do bodies[i] = {x = i * 1.5, y = -i, vx = 0.01 * i, vy = 0.3 / i, m = 1 / i} end
for step = 1, 3000 do
  for i, a in ipairs(bodies) do
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy = a.x - b.x, a.y - b.y
      local f = 0.001 / ((dx * dx + dy * dy) ^ 1.5 + 0.1)
      a.vx, a.vy, b.vx, b.vy = a.vx - dx * b.m * f, a.vy - dy * b.m * f, b.vx + dx * a.m * f, b.vy + dy * a.m * f
    end
  end
  for _, a in ipairs(bodies) do a.x, a.y = a.x + 0.01 * a.vx, a.y + 0.01 * a.vy end
end
for _, a in ipairs(bodies) do io.write(a.x * 1e4 // 1 | 0, ' ', a.y * 1e4 // 1 | 0, '\n') end

local state, words, counts = 7, {}, {}
for i = 1, 6000 do
  state = (state * 1103515245 + 12345) % 2147483648
  words[i] = string.format('w%x', state // 65536 % 700)
end
local text = table.concat(words, ' ')
for word in text:gmatch('%w+') do counts[word] = (counts[word] or 0) + 1 end
for round = 1, 4 do text = text:gsub('w(%x)(%x*)', function(a, b) return 'w' .. b .. a end) end
local keys = {}
for word in pairs(counts) do keys[#keys + 1] = word end
table.sort(keys, function(a, b) return counts[a] > counts[b] or counts[a] == counts[b] and a < b end)
for i = 1, 5 do print(keys[i], counts[keys[i]]) end
print(#text, text:sub(1, 40):upper():reverse())

local function primes(n)
  return coroutine.wrap(function()
    local sieve = {}
    for i = 2, n do
      if not sieve[i] then
        coroutine.yield(i)
        for k = i * i, n, i do sieve[k] = true end
      end
    end
  end)
end
local sum, queue = 0, {}
for p in primes(40000) do queue[#queue + 1] = {p, function() return p % 1000 end} end
for _, each in ipairs(queue) do sum = sum + each[1] * each[2]() end
print(sum)
