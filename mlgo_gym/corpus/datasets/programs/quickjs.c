/* Runs one of three JavaScript scripts: objects and closures, regular expressions, or JSON.

   The numbers that become text are exact in binary: valgrind computes `long double` with 64 bits, and musl prints by it. */
#include "quickjs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const scripts[] = {
    /* A queue of events, with classes, closures, a map and sorting. */
    "class Station { constructor(name, rate) { this.name = name; this.rate = rate; this.waiting = []; this.served = 0 }\n"
    "  accept(job, time) { this.waiting.push(job); return {time: time + this.rate + job.size % 7, station: this} }\n"
    "  finish() { const job = this.waiting.shift(); this.served += job.size; return job } }\n"
    "let state = 12345; const draw = bound => ((state = Math.imul(state, 1103515245) + 12345 & 0x7fffffff) >>> 16) % bound\n"
    "const stations = Array.from({length: 12}, (_, i) => new Station('s' + i, 3 + i)), totals = new Map()\n"
    "let events = [], output = ''\n"
    "for (let i = 0; i < 200; i++) events.push(stations[draw(12)].accept({id: i, size: 1 + draw(40)}, i))\n"
    "for (let step = 0; step < 6000; step++) {\n"
    "  if (step % 16 === 0) events.sort((a, b) => b.time - a.time || (a.station.name < b.station.name ? -1 : 1))\n"
    "  const {time, station} = events.pop(), job = station.finish()\n"
    "  totals.set(job.id, (totals.get(job.id) ?? 0) + job.size)\n"
    "  events.push(stations[(job.id + step) % 12].accept(job, time))\n"
    "}\n"
    "for (const {name, served} of stations) output += `${name} ${served}\\n`\n"
    "output + [...totals].sort(([a, x], [b, y]) => y - x || a - b).slice(0, 5).join(' ')\n",
    /* A log is split, searched and rewritten by regular expressions. */
    "let state = 7; const draw = bound => ((state = Math.imul(state, 1103515245) + 12345 & 0x7fffffff) >>> 16) % bound\n"
    "const levels = ['debug', 'info', 'warning', 'error'], lines = []\n"
    "for (let i = 0; i < 1500; i++) lines.push(`2026-0${1 + draw(9)}-1${draw(10)}T0${draw(10)}:3${draw(10)} [${levels[draw(4)]}] "
    "user${draw(90)}@host${draw(9)}.example: took ${draw(900)}.${draw(10)} ms for /path/${draw(50)}?key=${draw(7)}&v=a%20b`)\n"
    "const text = lines.join('\\n'), counts = {}, pattern = /^(\\S+) \\[(error|warning)\\] (?<user>\\w+)@([\\w.]+): took ([\\d.]+) ms/gm\n"
    "let sum = 0, output = ''\n"
    "for (let round = 0; round < 2; round++) for (const found of text.matchAll(pattern)) {\n"
    "  counts[found.groups.user] = (counts[found.groups.user] || 0) + 1; sum += parseInt(found[5]) }\n"
    "const masked = text.replace(/user\\d+@(host\\d)\\.example/g, (_, host) => host.toUpperCase()).replace(/%([0-9a-f]{2})/gi, '_')\n"
    "output += sum + ' ' + Object.keys(counts).sort((a, b) => counts[b] - counts[a] || (a < b ? -1 : 1)).slice(0, 5)\n"
    "output + '\\n' + masked.split(/[\\s?&=]+/).filter(word => /^(?:HOST|v|[a-z]+_)[0-9]?/.test(word)).length + '\\n' + masked.slice(0, 200)\n",
    /* Documents become text and come back; then a matrix of numbers and a large integer. */
    "const tree = depth => depth ? {name: 'node \\u00e9' + depth, children: [tree(depth - 1), tree(depth - 1)], weight: depth / 4} : [1, true, null, 'x\\n']\n"
    "let document = tree(8), length = 0, output = ''\n"
    "for (let round = 0; round < 8; round++) { const text = JSON.stringify(document, null, round % 3); length += text.length; document = JSON.parse(text) }\n"
    "const size = 48, a = new Float64Array(size * size).map((_, i) => i % 17 - 8), b = new Float64Array(size * size)\n"
    "for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) { let s = 0\n"
    "  for (let k = 0; k < size; k++) s += a[i * size + k] * a[k * size + j]\n"
    "  b[i * size + j] = s }\n"
    "let factorial = 1n; for (let i = 2n; i < 400n; i++) factorial *= i\n"
    "output += length + ' ' + b.reduce((x, y) => x + y) + '\\n' + factorial % 1000000007n + ' ' + factorial.toString(36).length\n",
};

int main(int argc, char **argv) {
  if (argc != 2 || atoi(argv[1]) < 0 || atoi(argv[1]) > 2)
    return 2;
  const char *script = scripts[atoi(argv[1])];
  JSRuntime *runtime = JS_NewRuntime();
  JSContext *context = JS_NewContext(runtime);
  JSValue value = JS_Eval(context, script, strlen(script), "script.js", JS_EVAL_TYPE_GLOBAL);
  int failed = JS_IsException(value);
  const char *text = JS_ToCString(context, value);
  if (text)
    puts(text);
  JS_FreeCString(context, text);
  JS_FreeValue(context, value);
  JS_FreeContext(context);
  JS_FreeRuntime(runtime);
  return failed;
}
