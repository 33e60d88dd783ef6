"""Arrays that are filled or changed in place."""

import numpy as np

from .points import CUBE, MATRIX, SERIES, SYMMETRIC, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def fill_zeros_like(x):
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[i] ** 2
    return out


@at(VECTOR)
def fill_empty_like_by_slices(x):
    out = np.empty_like(x)
    out[0] = 1.0
    out[1:] = x[1:] * x[:-1]
    return out


@at(VECTOR, differences=True)
def fill_plain_zeros(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i])
    return out


@at(1.5, differences=True)
def fill_a_trajectory(rate):
    y = np.zeros(6)
    y[0] = 1.0
    for t in range(5):
        y[t + 1] = y[t] - 0.1 * rate * y[t]
    return y[-1]


@at(MATRIX, differences=True)
def fill_a_plain_matrix(m):
    out = np.zeros((3, 3))
    out[0, :] = m[0] ** 2
    out[1:, 0] = m[1:, 1]
    return out


@at(0.4, 0.9, differences=True)
def fill_plain_empty(a, b):
    v = np.empty(2)
    v[0] = a * b
    v[1] = a + b
    return np.prod(v)


@at(VECTOR, differences=True)
def add_into_plain_zeros(x):
    total = np.zeros(3)
    total += x[:3] ** 2
    return total


@at(VECTOR)
def accumulate_a_number(x):
    total = 0.0
    for v in x:
        total += v**2
    return total


@at(WIDE)
def accumulate_rows(w):
    total = np.zeros_like(w[0])
    for row in w:
        total += row**2
    return total


@at(WIDE)
def accumulate_from_zero(w):
    total = 0
    for row in w:
        total = total + np.tanh(row)
    return total


@at(VECTOR)
def change_a_copy(x):
    y = x.copy()
    y[0] = 0.0
    y[2] *= 3.0
    return np.sum(y**2)


@at(VECTOR)
def change_what_np_copy_returns(x):
    y = np.copy(x)
    y[1:3] += x[3:5]
    return y


@at(VECTOR)
def set_by_a_mask(x):
    y = x.copy()
    y[y < 0] = 0.0
    return y


@at(VECTOR)
def set_by_indices(x):
    y = np.zeros_like(x)
    y[[0, 2, 4]] = x[[1, 3, 0]] ** 2
    return y


@at(VECTOR)
def add_at_repeated_indices(x):
    out = np.zeros_like(x)
    np.add.at(out, [0, 1, 1, 3], x[:4] ** 2)
    return out


@at(MATRIX)
def fill_the_diagonal(m):
    a = m.copy()
    np.fill_diagonal(a, 0.0)
    return np.sum(a**2)


@at(MATRIX)
def set_one_row_and_one_column(m):
    a = m.copy()
    a[0] = m[1] * m[2]
    a[:, 2] = 1.0
    return np.linalg.det(a + np.eye(3))


@at(VECTOR)
def operators_in_place(x):
    y = x + 1.0
    y *= x
    y -= 0.5
    y /= 2.0 + x**2
    return y


@at(VECTOR)
def power_in_place(x):
    y = x * 1.0
    y **= 2
    return y


@at(SERIES)
def smooth_in_place(x):
    y = x.copy()
    y[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3.0
    return y


@at(CUBE)
def set_in_a_cube(c):
    out = np.zeros_like(c)
    out[:, 1:, :] = c[:, 1:, :] - c[:, :-1, :]
    out[..., 0] = c[..., -1]
    return out


@at(VECTOR)
def exponential_filter(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for t in range(1, len(x)):
        y[t] = 0.3 * x[t] + 0.7 * y[t - 1]
    return y


@at(VECTOR)
def result_into_out(x):
    y = np.empty_like(x)
    np.multiply(x, x, out=y)
    return y


@at(MATRIX)
def one_matrix_step_by_step(m):
    power = np.eye(3)
    for _ in range(3):
        power = power @ m
    return power


@at(VECTOR)
def list_filled_then_array(x):
    out = []
    for v in x:
        out.append(v * np.exp(v))
    return np.array(out)


@at(VECTOR)
def list_of_zeros_changed(x):
    out = [0.0] * len(x)
    for i, v in enumerate(x):
        out[i] = v**2
    return np.sum(out)


@at(VECTOR, 0.5)
def copy_and_change_a_view(x, a):
    y = x.copy()
    head = y[:2]
    head *= a
    return y


@at(WIDE)
def scatter_into_rows(w):
    out = np.zeros_like(w)
    out[np.arange(3), [1, 3, 0]] = w[:, 0]
    return out * w


@at(VECTOR)
def another_name_changed_in_place(x):
    y = x + 1.0
    z = y
    z *= 2.0
    return y**2


def double(values):
    values *= 2.0


@at(VECTOR)
def function_that_changes_its_argument(x):
    y = x**2
    double(y)
    return y


@at([MATRIX, VECTOR[:3]])
def parameters_updated_in_a_loop(params):
    params = [p * 1.0 for p in params]
    for p in params:
        p -= 0.1 * p**3
    return params


@at(MATRIX)
def rows_normalised_in_a_loop(m):
    a = m.copy()
    for row in a:
        row /= row.sum()
    return a


@at(VECTOR)
def history_without_copies(x):
    y, history = x.copy(), []
    for _ in range(3):
        y *= 1.1
        history.append(y)
    return np.sum(history, axis=0)


@at(VECTOR)
def state_in_a_dict(x):
    state = {"velocity": np.zeros_like(x), "position": x * 1.0}
    for _ in range(3):
        state["velocity"] -= 0.1 * state["position"]
        state["position"] += state["velocity"]
    return state


@at(MATRIX)
def gaussian_elimination(m):
    a = m.copy()
    for i in range(3):
        for j in range(i + 1, 3):
            a[j] -= a[j, i] / a[i, i] * a[i]
    return np.diag(a)


@at(SYMMETRIC)
def cholesky_by_hand(a):
    low = np.zeros_like(a)
    for i in range(3):
        for j in range(i + 1):
            s = a[i, j] - np.dot(low[i, :j], low[j, :j])
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return low


@at(VECTOR, VECTOR**2)
def tridiagonal_solve(x, rhs):
    diagonal, d = 4.0 + x, rhs.copy()
    for i in range(1, 5):
        w = 1.0 / diagonal[i - 1]
        diagonal[i] -= w
        d[i] -= w * d[i - 1]
    y = np.zeros_like(d)
    y[-1] = d[-1] / diagonal[-1]
    for i in range(3, -1, -1):
        y[i] = (d[i] - y[i + 1]) / diagonal[i]
    return y


@at(SERIES)
def heat_equation_in_place(u):
    u = u.copy()
    for _ in range(5):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0], u[-1] = u[1], 0.0
    return u


@at(VECTOR)
def swap_two_elements(x):
    y = x.copy()
    y[0], y[3] = y[3], y[0]
    y[[1, 2]] = y[[2, 1]]
    return y * np.arange(5)


@at(VECTOR)
def subtract_at_repeated_indices(x):
    y = x.copy()
    np.subtract.at(y, [0, 0, 2], x[:3] ** 2)
    return y


@at(VECTOR, differences=True)
def guarded_division_with_out(x):
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


@at(VECTOR)
def rectifier_in_place(x):
    def rectify(values):
        values[values < 0] = 0

    y = x + 0.1
    rectify(y)
    return y**2


@at(VECTOR, differences=True)
def rows_of_a_history_matrix(x):
    history, state = np.zeros((4, 5)), x
    for t in range(4):
        history[t] = state
        state = np.sin(state) + 0.1 * state
    return history


@at(VECTOR, differences=True)
def constants_computed_then_changed(x):
    u = 20.0 * np.ones(5)
    u[1:-1] = x[1:-1] ** 2
    return u


@at(VECTOR, differences=True)
def vectorised_function_of_a_filled_array(x):
    u = np.zeros_like(x)
    u[1:] = x[:-1]
    return np.vectorize(lambda v: v**2 if v > 0 else -v)(u)


@at(VECTOR)
def view_of_a_copy_changed(x):
    y = x.copy()
    z = y.view()
    z[1] = x[0] ** 2
    return y


@at(VECTOR, differences=True)
def logarithm_where_positive(x):
    y = np.zeros(len(x))
    np.log(x, out=y, where=x > 0)
    return y * x


@at(VECTOR)
def safe_division_by_zero_differences(x):
    gaps = x[:, None] - x
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=~np.eye(len(x), dtype=bool))


@at(VECTOR, differences=True)
def assign_to_flat(x):
    a = np.zeros((2, 2))
    a.flat = x[:4]
    return np.linalg.det(a)


@at(VECTOR, differences=True)
def assign_elements_of_flat(x):
    a = np.ones((3, 2))
    a.flat[1] = x[0] * x[1]
    a.flat[2:5] = x[2:]
    a.T.flat[[0, 5]] += x[1]
    return a.T @ a


@at(VECTOR, differences=True)
def multiply_repeated_elements(x):
    y = np.ones(3)
    np.multiply.at(y, [0, 1, 1, 2, 1], x)
    return y


@at(VECTOR, differences=True)
def running_extremes_by_group(x):
    high = np.full(2, -np.inf)
    low = np.full(2, np.inf)
    np.maximum.at(high, [0, 1, 0, 1, 0], x)
    np.minimum.at(low, [0, 1, 0, 1, 0], x)
    return high - low


@at(VECTOR, differences=True)
def put_by_method(x):
    y = np.zeros(6)
    y.put([0, 3, -1], x[:3] ** 2)
    return y * np.arange(6.0)


@at(VECTOR)
def partition_a_copy_in_place(x):
    y = x.copy()
    y.partition(2)
    return y[2], np.sum(y[:2])


@at(VECTOR, differences=True)
def sort_a_result_in_place(x):
    y = x * np.array([1.0, -2.0, 0.5, 3.0, -1.0])
    y.sort()
    return y


@at(0.8, differences=True)
def full_like_a_plain_array(level):
    grid = np.full_like(np.zeros((2, 3)), level)
    grid[0, 1] = 2.0
    return grid**2
