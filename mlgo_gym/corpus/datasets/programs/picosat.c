/* Solves generated 3-SAT, pigeonhole and graph colouring instances and checks each model. */
#include <picosat.h>
#include <stdio.h>

#include "../workload.h"

enum { VARIABLES = 130, CLAUSES = 555, INSTANCES = 4, HOLES = 7, NODES = 80, COLOURS = 4 };

static int random_clauses(void) {
  static int literals[CLAUSES][3];
  PicoSAT *solver = picosat_init();
  int fixed = 0;
  for (int c = 0; c < CLAUSES; c++) {
    for (int k = 0; k < 3; k++) {
      int variable = 1 + (int)draw(VARIABLES);
      literals[c][k] = draw(2) ? variable : -variable;
      picosat_add(solver, literals[c][k]);
    }
    picosat_add(solver, 0);
  }
  int result = picosat_sat(solver, -1);
  if (result == PICOSAT_SATISFIABLE) {
    for (int c = 0; c < CLAUSES; c++) {
      int holds = 0;
      for (int k = 0; k < 3; k++)
        holds |= picosat_deref(solver, literals[c][k]) > 0;
      if (!holds)
        return 1;
    }
    for (int v = 1; v <= 40; v++) { /* flip one value of the model after another */
      picosat_assume(solver, -v * picosat_deref(solver, v));
      if (picosat_sat(solver, -1) == PICOSAT_UNSATISFIABLE) {
        fixed++;
        picosat_sat(solver, -1);
      }
    }
  }
  printf("3-SAT: %d, %d fixed values, %llu decisions\n", result, fixed, picosat_decisions(solver));
  picosat_reset(solver);
  return 0;
}

/* Each of the items has one of the values; the solver is to get pairs with unequal values. */
static PicoSAT *start(int items, int values) {
  PicoSAT *solver = picosat_init();
  for (int i = 0; i < items; i++) {
    for (int v = 1; v <= values; v++)
      picosat_add(solver, i * values + v);
    picosat_add(solver, 0);
  }
  return solver;
}

static void differ(PicoSAT *solver, int a, int b, int values) {
  for (int v = 1; v <= values; v++)
    picosat_add_arg(solver, -(a * values + v), -(b * values + v), 0);
}

int main(void) {
  for (int i = 0; i < INSTANCES; i++)
    if (random_clauses())
      return 1;
  PicoSAT *pigeons = start(HOLES + 1, HOLES), *colours = start(NODES, COLOURS);
  for (int p = 0; p <= HOLES; p++)
    for (int q = 0; q < p; q++)
      differ(pigeons, p, q, HOLES);
  if (picosat_sat(pigeons, -1) != PICOSAT_UNSATISFIABLE)
    return 2;
  int edges = 0;
  for (; picosat_sat(colours, 1000) == PICOSAT_SATISFIABLE; edges += 10) /* until no colouring is found */
    for (int i = 0; i < 10; i++) {
      int node = (int)draw(NODES);
      differ(colours, node, (node + 1 + (int)draw(NODES - 1)) % NODES, COLOURS);
    }
  printf("pigeonhole: %llu propagations\n", picosat_propagations(pigeons));
  printf("colouring: %d edges, %llu decisions\n", edges, picosat_decisions(colours));
  picosat_reset(pigeons);
  picosat_reset(colours);
  return 0;
}
