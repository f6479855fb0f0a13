//===- CApi.cpp - Sessions from C -----------------------------------------===//

#include "heddle_rt/c_api.h"
#include "heddle_rt/session.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

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

/// Runs a function that returns a status. Writes the message of an error, also
/// of an exception of the standard library: none may pass through C.
template <typename Function>
static int guard(char *error, size_t size, Function function) {
  try {
    return report(function(), error, size);
  } catch (const std::exception &exception) {
    writeMessage(exception.what(), error, size);
    return 1;
  }
}

static Status expectPointer(const void *pointer, const char *what) {
  return pointer ? Status::success()
                 : Status::error(std::string("expected ") + what +
                                 ", got a null pointer");
}

heddle_rt_session *heddle_rt_session_load(const char *directory,
                                          int cores_per_device, char *error,
                                          size_t error_size) {
  heddle_rt_session *loaded = nullptr;
  guard(error, error_size, [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(directory, "a folder"));
    SessionOptions options;
    options.coresPerDevice = cores_per_device;
    auto session = Session::load(directory, options);
    HEDDLE_RT_RETURN_IF_ERROR(session.status());
    loaded = new heddle_rt_session{std::move(*session)};
    return Status::success();
  });
  return loaded;
}

void heddle_rt_session_destroy(heddle_rt_session *session) { delete session; }

int heddle_rt_session_num_devices(const heddle_rt_session *session) {
  return session->session->numDevices();
}

int heddle_rt_session_run(heddle_rt_session *session, const char *program,
                          const heddle_rt_argument *arguments,
                          size_t num_arguments, const heddle_rt_result *results,
                          size_t num_results, char *error, size_t error_size) {
  return guard(error, error_size, [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(session, "a session"));
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(program, "a program's name"));
    std::vector<ConstBytes> in;
    for (size_t i = 0; i < num_arguments; ++i)
      in.emplace_back(static_cast<const std::byte *>(arguments[i].data),
                      arguments[i].size);
    std::vector<Bytes> out;
    for (size_t i = 0; i < num_results; ++i)
      out.emplace_back(static_cast<std::byte *>(results[i].data),
                       results[i].size);
    return session->session->run(program, in, out);
  });
}

int heddle_rt_session_read_variable(const heddle_rt_session *session,
                                    const char *name, void *data, size_t size,
                                    char *error, size_t error_size) {
  return guard(error, error_size, [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(session, "a session"));
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(name, "a variable's name"));
    return session->session->readVariable(
        name, Bytes(static_cast<std::byte *>(data), size));
  });
}

int heddle_rt_session_write_variable(heddle_rt_session *session,
                                     const char *name, const void *data,
                                     size_t size, char *error,
                                     size_t error_size) {
  return guard(error, error_size, [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(session, "a session"));
    HEDDLE_RT_RETURN_IF_ERROR(expectPointer(name, "a variable's name"));
    return session->session->writeVariable(
        name, ConstBytes(static_cast<const std::byte *>(data), size));
  });
}
