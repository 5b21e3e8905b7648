// Simulates a pyramid of boxes, a bridge of joints and rolling circles, and casts rays.
#include <box2d/box2d.h>

#include <cstdio>

static unsigned state = 1;

static float draw(unsigned bound) {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>((static_cast<unsigned long long>(state) * bound) >> 32);
}

struct Nearest : b2RayCastCallback {
  float fraction = 1;
  float ReportFixture(b2Fixture *, const b2Vec2 &, const b2Vec2 &, float found) override {
    fraction = found;
    return found;
  }
};

static b2Body *add_body(b2World &world, float x, float y, const b2Shape &shape) {
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
  edge.SetTwoSided(b2Vec2(-60.0f, 0.0f), b2Vec2(60.0f, 0.0f));
  ground->CreateFixture(&edge, 0.0f);
  b2PolygonShape box;
  box.SetAsBox(0.5f, 0.5f);
  for (int row = 0; row < 10; row++)
    for (int column = row; column < 10; column++)
      add_body(world, 1.1f * column - 0.55f * row - 20.0f, 0.75f + 1.1f * row, box);
  b2PolygonShape plank;
  plank.SetAsBox(0.6f, 0.12f);
  b2Body *previous = ground;
  for (int i = 0; i < 18; i++) {
    b2Body *body = add_body(world, 5.0f + i, 12.0f, plank);
    b2RevoluteJointDef joint;
    joint.Initialize(previous, body, b2Vec2(4.5f + i, 12.0f));
    world.CreateJoint(&joint);
    previous = body;
  }
  b2CircleShape circle;
  for (int i = 0; i < 40; i++) {
    circle.m_radius = 0.25f + 0.01f * draw(40);
    add_body(world, 6.0f + 0.01f * draw(1200), 16.0f + i, circle);
  }
  int hits = 0, awake = 0;
  for (int step = 0; step < 100; step++) {
    world.Step(1.0f / 60.0f, 8, 3);
    for (int ray = 0; ray < 20; ray++) {
      Nearest nearest;
      float x = draw(60) - 30.0f;
      world.RayCast(&nearest, b2Vec2(x, 30.0f), b2Vec2(x + 5.0f, 0.5f));
      hits += nearest.fraction < 1;
    }
  }
  for (b2Body *body = world.GetBodyList(); body; body = body->GetNext())
    awake += body->IsAwake();
  std::printf("%d bodies, %d joints, %d awake, %d rays hit\n", world.GetBodyCount(), world.GetJointCount(), awake, hits);
  return 0;
}
