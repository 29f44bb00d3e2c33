#ifndef TIKA_HELLO_WORLD
#define TIKA_HELLO_WORLD

#define HELLO "world"
#endif
