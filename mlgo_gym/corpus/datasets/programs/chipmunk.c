/* Simulates a tumbling pile of circles, boxes and polygons with two jointed chains, and queries the space. */
#include <chipmunk/chipmunk.h>
#include <stdio.h>

#include "../workload.h"

enum { BODIES = 150, CHAIN = 12, STEPS = 300, QUERIES = 2000 };

static cpFloat between(cpFloat low, cpFloat high) { return low + (high - low) * draw(1 << 20) / (1 << 20); }

static cpBody *add_body(cpSpace *space, cpVect position, int kind) {
  cpFloat size = between(6, 12);
  cpBody *body = cpSpaceAddBody(space, cpBodyNew(1, cpMomentForBox(1, 2 * size, 2 * size)));
  cpVect corners[9] = {{0, -size}, {size, size}, {-size, size}};
  for (int i = 3; i < 9; i++)
    corners[i] = cpv(between(-size, size), between(-size, size));
  cpShape *shape = kind == 0   ? cpCircleShapeNew(body, size, cpvzero)
                   : kind == 1 ? cpBoxShapeNew(body, 2 * size, size, 0.5)
                               : cpPolyShapeNew(body, 9, corners, cpTransformIdentity, 0);
  cpBodySetPosition(body, position);
  cpBodySetVelocity(body, cpv(between(-40, 40), between(-40, 40)));
  cpShapeSetFriction(shape, between(0.2, 0.9));
  cpShapeSetElasticity(shape, between(0, 0.6));
  cpSpaceAddShape(space, shape);
  return body;
}

static void add_chain(cpSpace *space, cpFloat x) {
  cpBody *previous = cpSpaceGetStaticBody(space);
  for (int i = 0; i < CHAIN; i++, x += 14) {
    cpBody *body = add_body(space, cpv(x, 280), i % 2);
    cpConstraint *joint = cpPivotJointNew(previous, body, cpv(x - 7, 280));
    cpConstraintSetCollideBodies(joint, cpFalse);
    cpSpaceAddConstraint(space, joint);
    cpSpaceAddConstraint(space, cpRotaryLimitJointNew(previous, body, -1.2, 1.2));
    if (i % 4 == 3)
      cpSpaceAddConstraint(space, cpDampedSpringNew(previous, body, cpvzero, cpvzero, 20, 30, 2));
    previous = body;
  }
}

static void count_contacts(cpArbiter *arbiter, cpSpace *space, cpDataPointer count) {
  (void)space;
  *(long *)count += cpArbiterGetCount(arbiter);
}

static void sum_energy(cpBody *body, void *energy) { *(cpFloat *)energy += cpBodyKineticEnergy(body); }

int main(void) {
  const cpVect corners[] = {{0, 0}, {600, 0}, {600, 800}, {0, 800}};
  long contacts = 0, hits = 0, near = 0;
  cpFloat energy = 0;
  cpSpace *space = cpSpaceNew();
  cpSpaceSetGravity(space, cpv(0, -200));
  cpSpaceSetSleepTimeThreshold(space, 0.5);
  for (int i = 0; i < 4; i++) {
    cpShape *wall = cpSegmentShapeNew(cpSpaceGetStaticBody(space), corners[i], corners[(i + 1) % 4], 4);
    cpShapeSetFriction(cpSpaceAddShape(space, wall), 0.8);
  }
  for (int i = 0; i < BODIES; i++)
    add_body(space, cpv(30 + 36 * (i % 15), 320 + 28 * (i / 15)), i % 3);
  add_chain(space, 40);
  add_chain(space, 340);
  cpCollisionHandler *handler = cpSpaceAddGlobalCollisionHandler(space);
  handler->preSolveFunc = count_contacts;
  handler->userData = &contacts;
  for (int i = 0; i < STEPS; i++)
    cpSpaceStep(space, 1.0 / 60);
  for (int i = 0; i < QUERIES; i++) {
    cpVect end = cpv(between(10, 590), between(10, 150));
    cpSegmentQueryInfo hit;
    cpPointQueryInfo point;
    cpShape *first = cpSpaceSegmentQueryFirst(space, cpv(between(10, 590), 790), end, 1, CP_SHAPE_FILTER_ALL, &hit);
    hits += first != NULL;
    near += cpSpacePointQueryNearest(space, end, 3, CP_SHAPE_FILTER_ALL, &point) != NULL;
  }
  cpSpaceEachBody(space, sum_energy, &energy);
  printf("%ld contacts, %ld hits, %ld near, energy %.4g\n", contacts, hits, near, energy);
  return 0;
}
