// Simulates a pyramid of boxes, a bridge of joints and rolling circles, and casts rays.
#include <Box2D/Box2D.h>
#include <cstdio>

#include "../workload.h"

// The library of the Python package reports failed assertions by these two.
PyObject *PyExc_AssertionError = nullptr;
void PyErr_SetString(PyObject *, const char *) { abort(); }

struct Nearest : b2RayCastCallback {
  float32 fraction = 1;
  float32 ReportFixture(b2Fixture *, const b2Vec2 &, const b2Vec2 &, float32 found) override {
    fraction = found;
    return found;
  }
};

static b2Body *add_body(b2World &world, float32 x, float32 y, const b2Shape &shape) {
  b2BodyDef definition;
  definition.type = b2_dynamicBody;
  definition.position.Set(x, y);
  b2Body *body = world.CreateBody(&definition);
  body->CreateFixture(&shape, 1.0f);
  return body;
}

int main() {
  b2World world(b2Vec2(0.0f, -10.0f));
  b2BodyDef definition;
  b2Body *ground = world.CreateBody(&definition);
  b2EdgeShape edge;
  edge.Set(b2Vec2(-60.0f, 0.0f), b2Vec2(60.0f, 0.0f));
  ground->CreateFixture(&edge, 0.0f);
  b2PolygonShape box;
  box.SetAsBox(0.5f, 0.5f);
  for (int row = 0; row < 12; row++)
    for (int column = row; column < 12; column++)
      add_body(world, 1.1f * (float32)column - 0.55f * (float32)row - 20.0f, 0.75f + 1.1f * (float32)row, box);
  b2PolygonShape plank;
  plank.SetAsBox(0.6f, 0.12f);
  b2Body *previous = ground;
  for (int i = 0; i < 18; i++) {
    b2Body *body = add_body(world, 5.0f + (float32)i, 12.0f, plank);
    b2RevoluteJointDef joint;
    joint.Initialize(previous, body, b2Vec2(4.5f + (float32)i, 12.0f));
    world.CreateJoint(&joint);
    previous = body;
  }
  b2CircleShape circle;
  for (int i = 0; i < 40; i++) {
    circle.m_radius = 0.25f + 0.01f * (float32)draw(40);
    add_body(world, 6.0f + 0.01f * (float32)draw(1200), 16.0f + (float32)i, circle);
  }
  int hits = 0, awake = 0;
  for (int step = 0; step < 150; step++) {
    world.Step(1.0f / 60.0f, 8, 3);
    for (int ray = 0; ray < 20; ray++) {
      Nearest nearest;
      float32 x = (float32)draw(60) - 30.0f;
      world.RayCast(&nearest, b2Vec2(x, 30.0f), b2Vec2(x + 5.0f, 0.5f));
      hits += nearest.fraction < 1;
    }
  }
  for (b2Body *body = world.GetBodyList(); body; body = body->GetNext())
    awake += body->IsAwake();
  std::printf("%d bodies, %d joints, %d awake, %d rays hit\n", world.GetBodyCount(), world.GetJointCount(), awake, hits);
  return 0;
}
