/* A place at which a test may end the process as a power cut would. Nothing in the product: only a program that is compiled
 * with FAULT_POINTS and brings fault_point() has them (tests/campaigns/fault_point.c). */
#ifndef BASE_FAULT_POINT_H
#define BASE_FAULT_POINT_H

#ifdef FAULT_POINTS
void fault_point(const char *name);
#define FAULT_POINT(name) fault_point(name)
#else
#define FAULT_POINT(name) ((void)0)
#endif

#endif
