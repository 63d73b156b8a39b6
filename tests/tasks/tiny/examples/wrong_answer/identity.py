#!POPCORN leaderboard tiny
def custom_kernel(data):
    return data
