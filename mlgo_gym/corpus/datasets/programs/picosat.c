/* Solves generated random 3-SAT, pigeonhole and graph colouring instances and checks each model. */
#include <stdio.h>
#include <stdlib.h>

#include "picosat.h"

enum { VARIABLES = 130, CLAUSES = 555, INSTANCES = 6, HOLES = 7, NODES = 80, COLOURS = 4 };

static unsigned state = 12345;

static unsigned draw(unsigned bound) {
  state = state * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)state * bound) >> 32);
}

static void random_instances(void) {
  static int literals[CLAUSES][3];
  int satisfiable = 0, failed = 0;
  unsigned long long propagations = 0, decisions = 0;
  for (int instance = 0; instance < INSTANCES; instance++) {
    PicoSAT *solver = picosat_init();
    for (int c = 0; c < CLAUSES; c++) {
      for (int k = 0; k < 3; k++) {
        int variable = (int)draw(VARIABLES) + 1;
        literals[c][k] = draw(2) ? variable : -variable;
        picosat_add(solver, literals[c][k]);
      }
      picosat_add(solver, 0);
    }
    if (picosat_sat(solver, -1) == PICOSAT_SATISFIABLE) {
      satisfiable++;
      for (int c = 0; c < CLAUSES; c++) {
        int holds = 0;
        for (int k = 0; k < 3; k++) holds |= picosat_deref(solver, literals[c][k]) > 0;
        if (!holds) exit(1);
      }
      for (int v = 1; v <= 40; v++) { /* flip one value of the model after another */
        picosat_assume(solver, -v * picosat_deref(solver, v));
        if (picosat_sat(solver, -1) == PICOSAT_UNSATISFIABLE) {
          failed++;
          picosat_sat(solver, -1);
        }
      }
    }
    propagations += picosat_propagations(solver);
    decisions += picosat_decisions(solver);
    picosat_reset(solver);
  }
  printf("3-SAT: %d of %d satisfiable, %d fixed values, %llu propagations, %llu decisions\n",
         satisfiable, INSTANCES, failed, propagations, decisions);
}

static void pigeonhole(void) {
  PicoSAT *solver = picosat_init();
  for (int p = 0; p <= HOLES; p++) {
    for (int h = 1; h <= HOLES; h++) picosat_add(solver, p * HOLES + h);
    picosat_add(solver, 0);
  }
  for (int h = 1; h <= HOLES; h++)
    for (int p = 0; p <= HOLES; p++)
      for (int q = 0; q < p; q++)
        picosat_add_arg(solver, -(p * HOLES + h), -(q * HOLES + h), 0);
  int result = picosat_sat(solver, -1);
  if (result != PICOSAT_UNSATISFIABLE) exit(1);
  printf("pigeonhole: %d, %llu propagations\n", result, picosat_propagations(solver));
  picosat_reset(solver);
}

static void colouring(void) {
  PicoSAT *solver = picosat_init();
  for (int n = 0; n < NODES; n++) {
    for (int c = 1; c <= COLOURS; c++) picosat_add(solver, n * COLOURS + c);
    picosat_add(solver, 0);
  }
  int edges = 0, result = PICOSAT_SATISFIABLE;
  while (result == PICOSAT_SATISFIABLE) { /* add edges until no colouring is left */
    for (int i = 0; i < 10; i++, edges++) {
      int a = (int)draw(NODES), b = (a + 1 + (int)draw(NODES - 1)) % NODES;
      for (int c = 1; c <= COLOURS; c++)
        picosat_add_arg(solver, -(a * COLOURS + c), -(b * COLOURS + c), 0);
    }
    result = picosat_sat(solver, 1000);
  }
  printf("colouring: %d after %d edges, %llu decisions\n", result, edges,
         picosat_decisions(solver));
  picosat_reset(solver);
}

int main(void) {
  random_instances();
  pigeonhole();
  colouring();
  return 0;
}
