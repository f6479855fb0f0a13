//===- CApi.cpp - Sessions from C -----------------------------------------===//

#include "heddle_rt/c_api.h"
#include "heddle_rt/session.h"
#include <algorithm>
#include <cstring>

using namespace heddle::runtime;

struct heddle_rt_session {
  std::unique_ptr<Session> session;
};

static void writeMessage(std::string_view message, char *error, size_t size) {
  if (!error || size == 0)
    return;
  size_t length = std::min(message.size(), size - 1);
  std::memcpy(error, message.data(), length);
  error[length] = '\0';
}

static int report(const Status &status, char *error, size_t size) {
  if (status.ok())
    return 0;
  writeMessage(status.message(), error, size);
  return 1;
}

heddle_rt_session *heddle_rt_session_load(const char *directory,
                                          int cores_per_device, char *error,
                                          size_t error_size) {
  SessionOptions options;
  options.coresPerDevice = cores_per_device;
  auto session = Session::load(directory, options);
  if (!session.ok()) {
    writeMessage(session.message(), error, error_size);
    return nullptr;
  }
  return new heddle_rt_session{std::move(*session)};
}

void heddle_rt_session_destroy(heddle_rt_session *session) { delete session; }

int heddle_rt_session_num_devices(const heddle_rt_session *session) {
  return session->session->numDevices();
}

int heddle_rt_session_run(heddle_rt_session *session, const char *program,
                          const heddle_rt_argument *arguments,
                          size_t num_arguments, const heddle_rt_result *results,
                          size_t num_results, char *error, size_t error_size) {
  std::vector<ConstBytes> in;
  for (size_t i = 0; i < num_arguments; ++i)
    in.emplace_back(static_cast<const std::byte *>(arguments[i].data),
                    arguments[i].size);
  std::vector<Bytes> out;
  for (size_t i = 0; i < num_results; ++i)
    out.emplace_back(static_cast<std::byte *>(results[i].data),
                     results[i].size);
  return report(session->session->run(program, in, out), error, error_size);
}

int heddle_rt_session_read_variable(const heddle_rt_session *session,
                                    const char *name, void *data, size_t size,
                                    char *error, size_t error_size) {
  return report(session->session->readVariable(
                    name, Bytes(static_cast<std::byte *>(data), size)),
                error, error_size);
}

int heddle_rt_session_write_variable(heddle_rt_session *session,
                                     const char *name, const void *data,
                                     size_t size, char *error,
                                     size_t error_size) {
  return report(
      session->session->writeVariable(
          name, ConstBytes(static_cast<const std::byte *>(data), size)),
      error, error_size);
}
