#pragma once

// What is marked HOLDFAST_API is the library's binary interface; everything else is hidden.
#define HOLDFAST_API __attribute__((visibility("default")))
