/* Simulates a tumbling pile of circles, boxes and polygons with jointed chains and queries the space. */
#include <stdio.h>

#include "chipmunk/chipmunk.h"

enum { BODIES = 150, CHAIN = 12, STEPS = 300, QUERIES = 2000 };

static unsigned state = 2024;

static double draw(double low, double high) {
  state = state * 1664525u + 1013904223u;
  return low + (high - low) * (state >> 8) / 16777216.0;
}

static cpShape *add_shape(cpSpace *space, cpVect position, int kind) {
  cpFloat size = draw(6, 12);
  cpBody *body = cpSpaceAddBody(space, cpBodyNew(1, cpMomentForBox(1, 2 * size, 2 * size)));
  cpShape *shape;
  cpBodySetPosition(body, position);
  cpBodySetVelocity(body, cpv(draw(-40, 40), draw(-40, 40)));
  if (kind == 0) {
    shape = cpCircleShapeNew(body, size, cpvzero);
  } else if (kind == 1) {
    shape = cpBoxShapeNew(body, 2 * size, size, 0.5);
  } else {
    cpVect corners[9];
    for (int i = 0; i < 9; i++) corners[i] = cpv(draw(-size, size), draw(-size, size));
    corners[8] = cpv(size, size); /* the hull of the points has at least three corners */
    corners[7] = cpv(-size, size);
    corners[6] = cpv(0, -size);
    shape = cpPolyShapeNew(body, 9, corners, cpTransformIdentity, 0.0);
  }
  cpShapeSetFriction(shape, draw(0.2, 0.9));
  cpShapeSetElasticity(shape, draw(0.0, 0.6));
  return cpSpaceAddShape(space, shape);
}

static void add_chain(cpSpace *space, cpFloat x) {
  cpBody *previous = cpSpaceGetStaticBody(space);
  for (int i = 0; i < CHAIN; i++) {
    cpVect position = cpv(x + 14 * i, 280);
    cpBody *body = cpShapeGetBody(add_shape(space, position, i % 2));
    cpVect pivot = cpv(position.x - 7, position.y);
    cpConstraint *joint = cpPivotJointNew(previous, body, pivot);
    cpConstraintSetCollideBodies(joint, cpFalse);
    cpSpaceAddConstraint(space, joint);
    cpSpaceAddConstraint(space, cpRotaryLimitJointNew(previous, body, -1.2, 1.2));
    if (i % 4 == 3)
      cpSpaceAddConstraint(space, cpDampedSpringNew(previous, body, cpvzero, cpvzero, 20, 30, 2));
    previous = body;
  }
}

static void count_contact(cpArbiter *arbiter, cpSpace *space, cpDataPointer data) {
  (void)space;
  *(long *)data += cpArbiterGetCount(arbiter);
}

static void sum_energy(cpBody *body, void *data) { *(cpFloat *)data += cpBodyKineticEnergy(body); }

int main(void) {
  long contacts = 0, hits = 0, near = 0;
  cpFloat energy = 0;
  cpSpace *space = cpSpaceNew();
  cpBody *ground = cpSpaceGetStaticBody(space);
  const cpVect corners[] = {{0, 0}, {600, 0}, {600, 800}, {0, 800}};
  cpSpaceSetGravity(space, cpv(0, -200));
  cpSpaceSetSleepTimeThreshold(space, 0.5);
  for (int i = 0; i < 4; i++)
    cpShapeSetFriction(
        cpSpaceAddShape(space, cpSegmentShapeNew(ground, corners[i], corners[(i + 1) % 4], 4)), 0.8);
  for (int i = 0; i < BODIES; i++)
    add_shape(space, cpv(30 + 540 * (i % 15) / 15.0, 320 + 28 * (i / 15)), i % 3);
  add_chain(space, 40);
  add_chain(space, 340);
  cpCollisionHandler *handler = cpSpaceAddGlobalCollisionHandler(space);
  handler->preSolveFunc = count_contact;
  handler->userData = &contacts;
  for (int i = 0; i < STEPS; i++) cpSpaceStep(space, 1.0 / 60);
  for (int i = 0; i < QUERIES; i++) {
    cpVect start = cpv(draw(10, 590), 790), end = cpv(draw(10, 590), 10);
    cpSegmentQueryInfo segment;
    cpPointQueryInfo point;
    hits += cpSpaceSegmentQueryFirst(space, start, end, 1, CP_SHAPE_FILTER_ALL, &segment) != NULL;
    near += cpSpacePointQueryNearest(space, end, 20, CP_SHAPE_FILTER_ALL, &point) != NULL;
  }
  cpSpaceEachBody(space, sum_energy, &energy);
  printf("%ld contacts, %ld segment hits, %ld points near, energy %.4g\n", contacts, hits, near,
         energy);
  return 0;
}
