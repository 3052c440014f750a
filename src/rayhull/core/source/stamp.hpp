// What a library says of itself: the loader looks for this text before it opens one.
#pragma once

#ifdef _WIN32
#define RAYHULL_EXPORT extern "C" __declspec(dllexport)
#else
#define RAYHULL_EXPORT extern "C" __attribute__((visibility("default")))
#endif

#define RAYHULL_SAY_STAMP __attribute__((used)) static const char rayhull_stamp[] = "rayhull core " RAYHULL_STAMP
