// Estimates the pitch, envelope and noise of a gliding synthetic voice, and synthesises it again.
#include <cmath>
#include <cstdio>
#include <vector>
#include <world/cheaptrick.h>
#include <world/d4c.h>
#include <world/dio.h>
#include <world/harvest.h>
#include <world/stonemask.h>
#include <world/synthesis.h>

#include "../workload.h"

using Signal = std::vector<double>;

enum { RATE = 8000, SAMPLES = 1500 };

struct Matrix {
  std::vector<Signal> cells;
  std::vector<double *> rows;
  Matrix(size_t height, size_t width) : cells(height, Signal(width)) {
    for (Signal &row : cells)
      rows.push_back(row.data());
  }
};

static double pitch_at(double second) { return 130.0 + 160.0 * second; }

static Signal make_voice() {
  Signal voice(SAMPLES);
  double phase = 0;
  for (int i = 0; i < SAMPLES; i++) {
    phase += 2 * M_PI * pitch_at((double)i / RATE) / RATE;
    for (int harmonic = 1; harmonic <= 10; harmonic++)
      voice[i] += 0.2 / harmonic * std::sin(harmonic * phase);
    voice[i] += ((double)draw(2001) - 1000) / 200000;
  }
  return voice;
}

static int count_right(const Signal &times, const Signal &pitch) {
  int right = 0;
  for (size_t i = 0; i < pitch.size(); i++)
    right += std::fabs(pitch[i] - pitch_at(times[i])) < 5;
  return right;
}

static double power(const Signal &signal) {
  double sum = 0;
  for (double value : signal)
    sum += value * value;
  return std::sqrt(sum / (double)signal.size());
}

int main() {
  const Signal voice = make_voice();
  DioOption dio;
  InitializeDioOption(&dio);
  HarvestOption harvest;
  InitializeHarvestOption(&harvest);
  CheapTrickOption envelope;
  InitializeCheapTrickOption(RATE, &envelope);
  D4COption noise;
  InitializeD4COption(&noise);
  const int frames = GetSamplesForDIO(RATE, SAMPLES, dio.frame_period);
  Signal times(frames), rough(frames), refined(frames), pitch(frames), again(SAMPLES);
  Dio(voice.data(), SAMPLES, RATE, &dio, times.data(), rough.data());
  StoneMask(voice.data(), SAMPLES, RATE, times.data(), rough.data(), frames, refined.data());
  Harvest(voice.data(), SAMPLES, RATE, &harvest, times.data(), pitch.data());
  Matrix spectrum(frames, envelope.fft_size / 2 + 1), aperiodic(frames, envelope.fft_size / 2 + 1);
  CheapTrick(voice.data(), SAMPLES, RATE, times.data(), pitch.data(), frames, &envelope, spectrum.rows.data());
  D4C(voice.data(), SAMPLES, RATE, times.data(), pitch.data(), frames, envelope.fft_size, &noise, aperiodic.rows.data());
  Synthesis(pitch.data(), frames, spectrum.rows.data(), aperiodic.rows.data(), envelope.fft_size, harvest.frame_period,
            RATE, SAMPLES, again.data());
  const int right = count_right(times, pitch);
  std::printf("%d frames, right pitch in %d, %d and %d\n", frames, count_right(times, rough), count_right(times, refined),
              right);
  std::printf("power in percent: %ld, again %ld\n", std::lround(100 * power(voice)), std::lround(100 * power(again)));
  return right * 10 < frames * 8;
}
