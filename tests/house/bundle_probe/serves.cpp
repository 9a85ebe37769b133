#include <httplib.h>

bool serves() {
  httplib::Server server;
  return server.is_valid();
}
