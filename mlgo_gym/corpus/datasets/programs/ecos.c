/* Solves generated cone programs: the smallest norm of Ax - b for x in a box. */
#include <ecos.h>
#include <math.h>
#include <stdio.h>

#include "../workload.h"

enum { VARIABLES = 40, ROWS = 60, PROBLEMS = 14 };

/* The solver measures its time, and counts would vary with it. */
void tic(timer *clock) { (void)clock; }

pfloat toc(timer *clock) {
  (void)clock;
  return 0;
}

/* Variables are t and x. The cone holds t and Ax - b; linear rows hold -1 <= x <= 1. */
static int solve(int number) {
  static pfloat values[VARIABLES * (ROWS + 2) + 1], cost[VARIABLES + 1], bounds[2 * VARIABLES + ROWS + 1];
  static idxint starts[VARIABLES + 2], rows[VARIABLES * (ROWS + 2) + 1];
  idxint count = 0, cone = ROWS + 1, first = 2 * VARIABLES;
  cost[0] = 1;
  values[count] = -1;
  rows[count++] = first;
  for (idxint column = 1; column <= VARIABLES; column++) {
    starts[column] = count;
    cost[column] = 0;
    values[count] = 1;
    rows[count++] = 2 * (column - 1);
    values[count] = -1;
    rows[count++] = 2 * (column - 1) + 1;
    for (idxint row = 0; row < ROWS; row++)
      if (draw(3) == 0) {
        values[count] = draw(2001) / 1000.0 - 1;
        rows[count++] = first + 1 + row;
      }
  }
  starts[VARIABLES + 1] = count;
  for (idxint i = 0; i < first; i++)
    bounds[i] = 1;
  bounds[first] = 0;
  for (idxint row = 0; row < ROWS; row++)
    bounds[first + 1 + row] = draw(8001) / 1000.0 - 4;
  pwork *work = ECOS_setup(VARIABLES + 1, first + cone, 0, first, 1, &cone, 0, values, starts, rows, NULL, NULL, NULL,
                           cost, bounds, NULL);
  if (!work)
    return 1;
  work->stgs->verbose = 0;
  idxint status = ECOS_solve(work);
  /* Integers are printed the same where an emulator has no long double. */
  printf("problem %d: status %d, norm %ld, x[0] %ld\n", number, (int)status, lround(1e3 * work->x[0]),
         lround(1e2 * work->x[1]));
  ECOS_cleanup(work, 0);
  return status != 0;
}

int main(void) {
  int errors = 0;
  for (int number = 0; number < PROBLEMS; number++)
    errors += solve(number);
  return errors;
}
